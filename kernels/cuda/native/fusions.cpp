// The forms of nodes by which a step on a GPU gains: what passes may make of several nodes, or of one that reads and writes more.
// A row says of which forms that is true; all of them have kernels, of our own or of a library.
#include <algorithm>

#include "graph/updates.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/native/describe.h"
#include "kernels/precision.h"

namespace tandem::cuda {
namespace {

bool in_eights(std::int64_t channels) { return channels % 8 == 0; }

// A convolution that sums what it writes and perhaps normalizes what it reads, and the gradient of such a one's weights: cuDNN has
// kernels made for that in float16 on Hopper. Tensor cores take channels in eights; others cost the convolution more than the
// pass over memory that it saves.
bool is_chained(const KernelRequest& request, int capability) {
  const bool forward = request.op == "Conv";
  const Operand &x = request.inputs[0], &y = forward ? request.outputs[0] : request.inputs[1];
  if (capability != 90 || x.dtype != DType::float16 || has(request.outputs, 1) != forward) return false;
  if ((forward && has(request.inputs, 2)) || request.attributes->has("activation") || request.attributes->integer("group", 1) != 1)
    return false;
  return in_eights(x.shape[1]) && in_eights(y.shape[1]);
}

bool always(const KernelRequest&, int) { return true; }

bool is_rectified(const KernelRequest& request, int) { return request.attributes->text("activation", "Relu") == "Relu"; }

// cuDNN adds gradients in front of a mask alone.
bool is_masked(const KernelRequest& request, int) { return request.attributes->has("activation"); }

// Heads whose tiles fit a block's shared memory; products of others, and of float64, are the library's.
bool is_attention(const KernelRequest& request, int) {
  return request.inputs[0].dtype != DType::float64 && std::max(request.inputs[0].shape[3], request.inputs[2].shape[3]) <= 128;
}

// All steps of an LSTM, GRU or RNN in one: a launch or two a step. The products of a step are plain float32's: where they are large, those
// of a library by tensor cores may be worth its ten launches.
bool is_recurrence(const KernelRequest& request, int) {
  return request.inputs[0].dtype == DType::float32 && request.inputs[0].shape.elements() > 0;
}
bool is_short_recurrence(const KernelRequest& request, int capability) {
  constexpr double short_products = 1e9;  // FLOPs of a step: 25 µs where 60% of an H200's peak is reached
  if (!is_recurrence(request, capability)) return false;
  const Shape &products = request.inputs[0].shape, &r = request.inputs[1].shape;
  return 2.0 * static_cast<double>(products[1]) * static_cast<double>(r.elements()) <= short_products;
}

// Scores of 16 bits, with labels that are classes; of the loss the gradient, too.
bool is_narrow_loss(const KernelRequest& request, int) {
  const DType scores = request.inputs[0].dtype;
  return is_16_bit(scores) && !is_float(request.inputs[1].dtype) && (request.outputs.size() < 2 || request.outputs[1].dtype == scores);
}

// Scores of 16 bits, probabilities of 16 bits, or both.
bool is_narrow_softmax(const KernelRequest& request, int) {
  return is_16_bit(request.inputs[0].dtype) || is_16_bit(request.outputs[0].dtype);
}

// Rows of float32 in packs of four, of which an addend, or a copy of the gradient, may be dropped on the way.
bool is_dropped_row(const KernelRequest& request, std::size_t random, const Operand& x) {
  if (!has(request.inputs, random)) return true;
  std::int64_t n = 1;
  for (auto i = static_cast<int>(request.attributes->integer("axis")); i < x.shape.rank(); ++i) n *= x.shape[i];
  return x.dtype == DType::float32 && n % 4 == 0;
}

// With an addend, y, or both of 16 bits beside float32 x, or with y in both types; of the gradient dy, or what is added to it. The gradient
// once more is of 16 bits as these, but where it is dropped.
bool is_row_normalization(const KernelRequest& request, int) {
  const DType x = request.inputs[0].dtype, y = request.outputs[0].dtype, addend = has(request.inputs, 3) ? request.inputs[3].dtype : y;
  if (!is_dropped_row(request, 4, request.inputs[0])) return false;
  if (has(request.outputs, 4)) return x == DType::float32 && y == x && is_16_bit(addend) && request.outputs[4].dtype == addend;
  return (y == x && addend == x) || (x == DType::float32 && is_16_bit(addend) && (y == x || y == addend));
}
bool is_row_gradient(const KernelRequest& request, int) {
  if (!is_dropped_row(request, 7, request.inputs[1])) return false;
  if (has(request.outputs, 3)) {
    const DType narrow = has(request.inputs, 6) ? request.inputs[6].dtype : request.inputs[0].dtype;
    if (request.outputs[3].dtype != narrow || (!is_16_bit(narrow) && !has(request.inputs, 7))) return false;
  }
  if (has(request.inputs, 6))
    return request.inputs[0].dtype == DType::float32 && request.inputs[1].dtype == DType::float32 && is_16_bit(request.inputs[6].dtype);
  return request.inputs[1].dtype == request.inputs[0].dtype ||
         (request.inputs[1].dtype == DType::float32 && is_16_bit(request.inputs[0].dtype));
}

// An activation in a library's product of 16 bits. Others have a kernel behind the product either way.
bool is_activated(const KernelRequest& request, int) { return request.attributes->has("activation") && is_16_bit(request.inputs[0].dtype); }

struct Form {
  std::string_view op;
  bool (*gains)(const KernelRequest& request, int capability);
  Gain sure = Gain::yes;
};
constexpr Form forms[] = {
    {"AttentionTraining", is_attention},
    {"BatchNormalizationBackward", is_masked},  // of the sum of two gradients
    {"BatchNormalizationTraining", is_rectified},  // adds another tensor, or has its statistics from sums
    {"Conv", is_chained, Gain::optional},  // its kernels are older than those of plain convolutions
    {"ConvolutionBackwardData", always},     // masks what it writes
    {"ConvolutionBackwardWeights", is_chained, Gain::optional},
    {"CountCorrect", is_narrow_loss},
    {"GroupNormalizationTraining", always},
    {"InnerProduct", is_activated},
    {"InnerProductBackwardData", is_activated},
    {"LogSoftmax", is_narrow_softmax},
    {"RecurrentTraining", is_short_recurrence},
    {"RecurrentTraining", is_recurrence, Gain::optional},
    {"RowNormalization", is_row_normalization},
    {"RowNormalizationBackward", is_row_gradient},
    {"RunningStatistics", always},           // of many in a launch, variances as cuDNN keeps them
    {"Softmax", is_narrow_softmax},
    {"SoftmaxCrossEntropyTraining", is_narrow_loss},
};

}  // namespace

Gain fuses(const KernelRequest& request, int capability) {
  if (find_update(request.op)) return Gain::yes;  // of many in a launch, reads gradients in 16 bits and writes a copy in them
  const auto form =
      std::find_if(std::begin(forms), std::end(forms), [&](const Form& f) { return f.op == request.op && f.gains(request, capability); });
  return form == std::end(forms) ? Gain::no : form->sure;
}

}  // namespace tandem::cuda
