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

// x̂ · scale + bias, all but x per channel.
CudnnGraph::TensorId renormalize(CudnnGraph& g, const CudnnGraph::NormBackward& n, CudnnGraph::TensorId bias, const Dims& x) {
  CudnnGraph::TensorId last = n.x;
  for (const auto& [mode, operand] : {std::pair{CUDNN_POINTWISE_SUB, n.mean},
                                      {CUDNN_POINTWISE_MUL, n.inverse_deviation},
                                      {CUDNN_POINTWISE_MUL, n.scale},
                                      {CUDNN_POINTWISE_ADD, bias}}) {
    const auto next = g.virtual_tensor(DType::float32, x);
    g.pointwise(mode, last, operand, next);
    last = next;
  }
  return last;
}

// masked = dy where sum > 0, else 0.
void mask(CudnnGraph& g, CudnnGraph::TensorId dy, CudnnGraph::TensorId sum, CudnnGraph::TensorId masked, const Dims& x) {
  const auto open = g.virtual_tensor(DType::boolean, x);
  g.pointwise(CUDNN_POINTWISE_CMP_GT, sum, g.number(number_role(0)), open);
  g.pointwise(CUDNN_POINTWISE_MUL, dy, open, masked);
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

// cuDNN has no engine for its own gradient of Relu before that of the normalization, but for a product of dy with a
// comparison: of y where that is an operand, else of x̂ · scale + bias.
std::vector<KernelDescription> describe_cudnn_batch_normalization_backward(const KernelRequest& request, Libraries* libraries) {
  const std::optional<KernelDescription> d = batch_normalization_backward_description(request, "cudnn.batch_normalization_backward");
  if (!d || !takes(*d)) return {};
  const Dims x = dims_of(d->inputs[0].shape), c = channels_of(x);
  const DType dtype = d->inputs[0].dtype;
  const bool relu = request.attributes->has("activation"), given_y = has(d->inputs, 7), sums = has(d->inputs, 8), adds = has(d->outputs, 3);
  return descriptions_of({.family = "cudnn.batch_normalization_backward", .description = *d, .build = [=] {
                            CudnnGraph g;
                            CudnnGraph::NormBackward n{.x = g.tensor(dtype, x, input_role(0)),
                                                       .dy = g.tensor(dtype, x, input_role(1)),
                                                       .scale = g.tensor(DType::float32, c, input_role(2)),
                                                       .mean = g.tensor(DType::float32, c, input_role(4)),
                                                       .inverse_deviation = g.tensor(DType::float32, c, input_role(6)),
                                                       .dscale = g.tensor(DType::float32, c, output_role(1)),
                                                       .dbias = g.tensor(DType::float32, c, output_role(2)),
                                                       .dx = g.tensor(dtype, x, output_role(0))};
                            if (sums) {
                              const auto sum = g.virtual_tensor(DType::float32, x);
                              g.pointwise(CUDNN_POINTWISE_ADD, n.dy, g.tensor(dtype, x, input_role(8)), sum);
                              n.dy = sum;
                            }
                            if (relu) {
                              const auto masked = adds ? g.tensor(dtype, x, output_role(3)) : g.virtual_tensor(dtype, x);
                              mask(g, n.dy,
                                   given_y ? g.tensor(dtype, x, input_role(7))
                                           : renormalize(g, n, g.tensor(DType::float32, c, input_role(3)), x),
                                   masked, x);
                              n.dy = masked;
                            }
                            g.norm_backward(n);
                            return g;
                          }, .filter = filter_of(request.options, DType::float16), .numbers = {0.0F}},
                         request, *libraries);
}

}  // namespace tandem::cuda
