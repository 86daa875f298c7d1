// BatchNormalization in training, channels last, statistics in float32. The opaque output holds 1/√(variance + ε).
#include "kernels/cuda/cudnn/kernel.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/native/batch_normalization.h"

namespace tandem::cuda {
namespace {

// [N,C] and [N,C,W] as four dimensions.
Dims dims_of(const Shape& shape) {
  Dims d = shape.dims;
  while (d.size() < 4) d.insert(d.begin() + 2, 1);
  return d;
}

Dims channels_of(const Dims& x) {
  Dims c(x.size(), 1);
  c[1] = x[1];
  return c;
}

bool takes(const KernelDescription& d) {
  const Operand& x = d.inputs[0];
  if (x.shape.rank() < 2 || x.shape.rank() > 5 || !is_float(x.dtype) || x.dtype == DType::float64 || x.shape.elements() == 0) return false;
  for (std::size_t i = 1; i < d.inputs.size(); ++i)
    if (d.inputs[i].shape.rank() == 1 && !d.inputs[i].layout.opaque() && d.inputs[i].dtype != DType::float32) return false;
  return true;
}

}  // namespace

std::vector<KernelDescription> describe_cudnn_batch_normalization_training(const KernelRequest& request, Libraries* libraries) {
  const std::optional<KernelDescription> d = batch_normalization_description(request, "cudnn.batch_normalization_training");
  if (!d || !takes(*d) || has(d->inputs, 4)) return {};  // its engines take their own statistics
  const Dims x = dims_of(d->inputs[0].shape), c = channels_of(x);
  const DType dtype = d->inputs[0].dtype;
  const bool add = has(d->inputs, 3), relu = request.attributes->text("activation", "") == "Relu";
  const float epsilon = request.attributes->real("epsilon", 1e-5F);
  CudnnRecipe recipe{.family = "cudnn.batch_normalization_training", .description = *d, .build = [=] {
                       CudnnGraph g;
                       const auto y = g.tensor(dtype, x, output_role(0));
                       auto last = add || relu ? g.virtual_tensor(DType::float32, x) : y;
                       g.norm_training({.x = g.tensor(dtype, x, input_role(0)),
                                       .scale = g.tensor(DType::float32, c, input_role(1)),
                                       .bias = g.tensor(DType::float32, c, input_role(2)),
                                       .epsilon = g.number(number_role(0)),
                                       .y = last,
                                       .mean = g.tensor(DType::float32, c, output_role(1)),
                                       .inverse_deviation = g.tensor(DType::float32, c, output_role(3))});
                       if (add) {
                         const auto sum = relu ? g.virtual_tensor(DType::float32, x) : y;
                         g.pointwise(CUDNN_POINTWISE_ADD, last, g.tensor(dtype, x, input_role(3)), sum);
                         last = sum;
                       }
                       if (relu) g.pointwise(CUDNN_POINTWISE_RELU_FWD, last, std::nullopt, y);
                       return g;
                     }, .filter = filter_of(request.options, DType::float16), .numbers = {epsilon}};
  if (has(d->outputs, 2)) recipe.after = variance_binder(x[1], epsilon);
  return descriptions_of(recipe, request, *libraries);
}

// The plain gradient. cuDNN 9.19 also plans dy masked by a comparison, or summed, before it, and then reads dy through a null pointer
// when the plan runs.
std::vector<KernelDescription> describe_cudnn_batch_normalization_backward(const KernelRequest& request, Libraries* libraries) {
  const std::optional<KernelDescription> d = batch_normalization_backward_description(request, "cudnn.batch_normalization_backward");
  if (!d || !takes(*d) || request.attributes->has("activation") || has(d->inputs, 8) || has(d->outputs, 3)) return {};
  const Dims x = dims_of(d->inputs[0].shape), c = channels_of(x);
  const DType dtype = d->inputs[0].dtype;
  return descriptions_of({.family = "cudnn.batch_normalization_backward", .description = *d, .build = [=] {
                            CudnnGraph g;
                            g.norm_backward({.x = g.tensor(dtype, x, input_role(0)),
                                             .dy = g.tensor(dtype, x, input_role(1)),
                                             .scale = g.tensor(DType::float32, c, input_role(2)),
                                             .mean = g.tensor(DType::float32, c, input_role(4)),
                                             .inverse_deviation = g.tensor(DType::float32, c, input_role(6)),
                                             .dscale = g.tensor(DType::float32, c, output_role(1)),
                                             .dbias = g.tensor(DType::float32, c, output_role(2)),
                                             .dx = g.tensor(dtype, x, output_role(0))});
                            return g;
                          }, .filter = filter_of(request.options, DType::float16)},
                         request, *libraries);
}

}  // namespace tandem::cuda
