// The forms of nodes by which a step on a CPU gains: what passes may make of several nodes. A row says of which forms that is
// true; all of them have kernels.
#include "kernels/cpu/fusions.h"

#include <algorithm>

#include "graph/updates.h"
#include "kernels/cpu/isa.h"

namespace tandem {
namespace {

bool always(const KernelRequest&) { return true; }
// Not of float16, which no kernel reads; beside float32 with an addend, y, or both of bfloat16; of the gradient dy.
bool is_row_normalization(const KernelRequest& request) {
  const bool adds = request.inputs.size() > 3 && request.inputs[3].present();
  const DType x = request.inputs[0].dtype, y = request.outputs[0].dtype, addend = adds ? request.inputs[3].dtype : y;
  if (request.outputs.size() > 4 || request.inputs.size() > 4) return false;  // y in two types, an addend that is dropped
  if (addend == x && y == x) return x != DType::float16;
  return x == DType::float32 && addend == DType::bfloat16 && (y == x || y == addend);
}
bool is_row_gradient(const KernelRequest& request) {
  return request.inputs[1].dtype == DType::float32 && request.inputs[0].dtype == DType::bfloat16 &&
         request.outputs[0].dtype == DType::float32 && request.outputs.size() < 4;
}

// With a Clip, or a sum and a Relu, in a normalization whose channels lie side by side; not from sums of its own.
bool is_channel_normalization(const KernelRequest& request) {
  const DType x = request.inputs[0].dtype;
  return machine_isa() == Isa::avx512 && (x == DType::float32 || x == DType::bfloat16) && request.inputs.size() != 6;
}
// Of the sum of two gradients, where the normalization was one of these.
bool is_channel_gradient(const KernelRequest& request) {
  const bool is_own = (request.inputs.size() > 7 && request.inputs[7].present()) || request.attributes->text("activation", "") == "Clip";
  return is_own && is_channel_normalization(request);
}

// Of types whose steps it has loops for; 16-bit templates are written out.
bool is_recurrence(const KernelRequest& request) {
  return request.inputs[0].dtype == DType::float32 || request.inputs[0].dtype == DType::float64;
}

// Scores of bfloat16, with labels that are classes; of the loss the gradient, too.
bool is_narrow_loss(const KernelRequest& request) {
  const DType scores = request.inputs[0].dtype;
  return scores == DType::bfloat16 && !is_float(request.inputs[1].dtype) &&
         (request.outputs.size() < 2 || request.outputs[1].dtype == scores);
}

// Of one tensor, with a gradient of bfloat16, or a copy in it: many at once would keep their gradients until the last is there.
bool is_narrow_update(const KernelRequest& request) {
  const auto narrow = [](const Operand& o) { return o.dtype == DType::bfloat16; };
  const auto others = [](const Operand& o) { return o.dtype == DType::float32 || o.dtype == DType::bfloat16; };
  return find_update(request.op) && request.attributes->integer("tensors", 0) == 1 && std::ranges::any_of(request.inputs, narrow) &&
         std::ranges::all_of(request.inputs, others);
}

struct Form {
  std::string_view op;
  bool (*gains)(const KernelRequest& request);
};
constexpr Form forms[] = {
    {"AttentionTraining", always},
    {"BatchNormalizationBackward", is_channel_gradient},
    {"BatchNormalizationTraining", is_channel_normalization},
    {"CountCorrect", is_narrow_loss},
    {"RecurrentTraining", is_recurrence},
    {"GroupNormalizationTraining", is_row_normalization},
    {"RowNormalization", is_row_normalization},
    {"RowNormalizationBackward", is_row_gradient},
    {"SoftmaxCrossEntropyTraining", is_narrow_loss},
};

}  // namespace

bool cpu_fuses(const KernelRequest& request) {
  return is_narrow_update(request) ||
         std::any_of(std::begin(forms), std::end(forms), [&](const Form& form) { return form.op == request.op && form.gains(request); });
}

}  // namespace tandem
