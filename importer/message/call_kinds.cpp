#include "importer/message/call_kinds.h"

#include <algorithm>
#include <iterator>

#include "importer/message/signature.h"

namespace tandem {
namespace {

constexpr std::string_view moving[] = {
    "view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "permute", "transpose", "t", "numpy_t", "slice", "select", "narrow",
    "split", "split_with_sizes", "chunk", "unbind", "getitem", "unflatten", "flatten", "clone", "contiguous", "alias", "cat",
    "concat", "stack", "flip", "roll", "movedim", "swapaxes", "swapdims", "to", "_to_copy", "type_as", "diagonal", "hstack",
    "vstack", "detach", "view_as", "reshape_as"};
constexpr std::string_view picking[] = {
    "embedding", "index", "index_select", "gather", "take", "expand", "expand_as", "repeat", "repeat_interleave", "tile",
    "broadcast_to"};
constexpr std::string_view making[] = {
    "arange", "zeros", "ones", "full", "empty", "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones",
    "new_full", "new_empty", "linspace", "eye", "scalar_tensor", "scalar_tensor_default", "lifted_tensor", "lift_fresh_copy",
    "sym_size_int"};
constexpr std::string_view counting[] = {
    "add", "add_", "sub", "sub_", "rsub", "mul", "mul_", "div", "div_", "floor_divide", "remainder", "abs", "neg", "sign", "log",
    "log2", "floor", "ceil", "round", "trunc", "min", "max", "minimum", "maximum", "clamp", "clamp_min", "clamp_max", "where",
    "lt", "le", "gt", "ge", "eq", "ne", "cumsum", "sum", "copy", "copy_", "fill", "fill_", "slice_scatter", "select_scatter",
    "meshgrid", "bitwise_and", "bitwise_or", "bitwise_not", "logical_and", "logical_or", "logical_not", "index_put", "index_put_",
    "masked_fill", "sort", "argsort"};
constexpr std::string_view taking[] = {
    "linear", "matmul", "mm", "bmm", "addmm", "conv1d", "conv2d", "conv3d", "convolution", "_convolution", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "lstm", "gru", "rnn_tanh", "rnn_relu", "group_norm", "native_group_norm", "layer_norm",
    "native_layer_norm", "rms_norm", "instance_norm", "batch_norm", "_native_batch_norm_legit_no_training", "prelu",
    "_prelu_kernel", "embedding", "embedding_bag", "einsum", "mul", "div", "add", "sub", "where", "baddbmm",
    "index", "index_select", "gather", "take"};
constexpr std::string_view shifting[] = {"add", "sub", "rsub"};
constexpr std::string_view joining[] = {"cat", "concat", "stack", "hstack", "vstack"};
constexpr std::string_view elided[] = {"add", "sub", "mul", "div"};

template <std::size_t N>
bool is_in(const std::string_view (&list)[N], std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

// "index_3": the fourth result of aten.index; "index_3@2": a copy of it.
std::string_view without_number(std::string_view value) {
  value = value.substr(0, value.find('@'));
  const std::size_t end = value.find_last_not_of("0123456789");
  return end != value.npos && end + 1 < value.size() && value[end] == '_' ? value.substr(0, end) : value;
}

// "torch.ops.aten.add.Tensor": "add".
std::string_view function_of(std::string_view call) {
  constexpr std::string_view before = "torch.ops.aten.";
  std::string_view target = target_of(call);
  if (!target.starts_with(before)) return {};
  target.remove_prefix(before.size());
  return target.substr(0, target.find('.'));
}

}  // namespace

CallKind kind_of_result(std::string_view value) {
  const std::string_view name = without_number(value);
  if (name == "val" && name != value.substr(0, value.find('@'))) return CallKind::within;
  if (is_in(moving, name)) return CallKind::moves;
  if (is_in(picking, name)) return CallKind::picks;
  if (is_in(making, name)) return CallKind::makes;
  return is_in(counting, name) ? CallKind::counts : CallKind::computes;
}

bool is_detached(std::string_view value) {
  return without_number(value) == "detach";
}

bool is_joined(std::string_view value) {
  return is_in(joining, without_number(value));
}

bool is_shift(std::string_view value) {
  return is_in(shifting, without_number(value));
}

bool takes_as_they_are(std::string_view call) {
  const std::string_view function = function_of(call);
  return (is_in(taking, function) || is_in(joining, function)) && call.find("alpha:") == call.npos && call.find("beta:") == call.npos;
}

bool is_batch_normalization(std::string_view call) {
  return function_of(call).find("batch_norm") != call.npos;
}

bool may_change_nothing(std::string_view value) {
  return is_in(elided, without_number(value));
}

}  // namespace tandem
