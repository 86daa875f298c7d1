// RowNormalization and its gradient (docs/internal-operators.md) by cuDNN's normalization of layers and of mean squares. The residual's
// sum before it is in the same graph. A sum behind its gradient is not: cuDNN 9.19 plans that, and finds no pointer when it runs.
#include "kernels/cuda/cudnn/kernel.h"
#include "kernels/cuda/libraries.h"

namespace tandem::cuda {
namespace {

// Of the memory's rate. Until a GPU has timed both, our own kernels, which read a row once, are taken to be faster.
constexpr double rate = 0.8;

struct Rows {
  Dims whole{1, 1, 1, 1}, row{1, 1, 1, 1}, each{1, 1, 1, 1};  // of x, of what scales it, of its statistics
  bool rms;
  cudnnBackendNormMode_t mode;
  explicit Rows(const KernelRequest& request)
      : rms(request.attributes->integer("rms", 0) != 0), mode(rms ? CUDNN_RMS_NORM : CUDNN_LAYER_NORM) {
    const Shape& x = request.inputs[0].shape;
    const auto axis = request.attributes->integer("axis");
    for (int i = 0; i < x.rank(); ++i) whole[i < axis ? 0 : 1] *= x[i];
    each[0] = whole[0];
    row[1] = whole[1];
  }
};

// `scale` and `bias`: whether the operands that cuDNN wants are there, and no others.
std::optional<KernelDescription> description(const KernelRequest& request, std::string_view family, bool scale, bool bias, bool rms,
                                             const DeviceModel& device) {
  KernelDescription d = row_major_description(request, family);
  double bytes = 0;
  for (const auto* operands : {&d.inputs, &d.outputs})
    for (const Operand& o : *operands) {
      if (o.present() && (!is_float(o.dtype) || o.dtype == DType::float64 || o.shape.elements() == 0)) return std::nullopt;
      bytes += static_cast<double>(o.bytes());
    }
  if (!scale || bias == rms) return std::nullopt;
  constexpr double flops = 8;  // an element, as the operator's row has it
  d.efficiency = flops * static_cast<double>(d.inputs[0].shape.elements()) * rate * device.bandwidth / (device.flops * bytes);
  return d;
}

}  // namespace

std::vector<KernelDescription> describe_cudnn_row_normalization(const KernelRequest& request, Libraries* libraries) {
  if (has(request.outputs, 4) || has(request.inputs, 4)) return {};
  const Rows all(request);
  const std::optional<KernelDescription> d =
      description(request, "cudnn.row_normalization", has(request.inputs, 1), has(request.inputs, 2), all.rms, libraries->device().model);
  if (!d) return {};
  const CudnnRecipe recipe{.family = "cudnn.row_normalization", .description = *d, .build = [all, in = d->inputs, out = d->outputs] {
                             CudnnGraph g;
                             auto x = g.tensor(in[0].dtype, all.whole, input_role(0));
                             if (has(in, 3)) {
                               const auto sum = g.tensor(out[3].dtype, all.whole, output_role(3));
                               g.pointwise(CUDNN_POINTWISE_ADD, x, g.tensor(in[3].dtype, all.whole, input_role(3)), sum);
                               x = sum;
                             }
                             CudnnGraph::Norm n{.x = x,
                                                .scale = g.tensor(DType::float32, all.row, input_role(1)),
                                                .bias = {},
                                                .epsilon = g.number(number_role(0)),
                                                .y = g.tensor(out[0].dtype, all.whole, output_role(0)),
                                                .mean = {},
                                                .inverse_deviation = g.tensor(DType::float32, all.each, output_role(2)),
                                                .mode = all.mode};
                             if (!all.rms) n.bias = g.tensor(DType::float32, all.row, input_role(2));
                             if (!all.rms) n.mean = g.tensor(DType::float32, all.each, output_role(1));
                             g.norm_training(n);
                             return g;
                           }, .filter = filter_of(request.options, DType::float16), .numbers = {request.attributes->real("epsilon", 1e-5F)}};
  return descriptions_of(recipe, request, *libraries);
}

std::vector<KernelDescription> describe_cudnn_row_normalization_backward(const KernelRequest& request, Libraries* libraries) {
  if (has(request.inputs, 5) || has(request.inputs, 6) || has(request.outputs, 3)) return {};
  const Rows all(request);
  const std::optional<KernelDescription> d =
      description(request, "cudnn.row_normalization_backward", has(request.inputs, 2) && has(request.outputs, 1), has(request.outputs, 2),
                  all.rms, libraries->device().model);
  if (!d) return {};
  const CudnnRecipe recipe{.family = "cudnn.row_normalization_backward",
                           .description = *d,
                           .build =
                               [all, in = d->inputs, out = d->outputs] {
                                 CudnnGraph g;
                                 CudnnGraph::NormBackward n{.x = g.tensor(in[1].dtype, all.whole, input_role(1)),
                                                            .dy = g.tensor(in[0].dtype, all.whole, input_role(0)),
                                                            .scale = g.tensor(DType::float32, all.row, input_role(2)),
                                                            .mean = {},
                                                            .inverse_deviation = g.tensor(DType::float32, all.each, input_role(4)),
                                                            .dscale = g.tensor(DType::float32, all.row, output_role(1)),
                                                            .dbias = {},
                                                            .dx = g.tensor(out[0].dtype, all.whole, output_role(0)),
                                                            .mode = all.mode};
                                 if (!all.rms) n.mean = g.tensor(DType::float32, all.each, input_role(3));
                                 if (!all.rms) n.dbias = g.tensor(DType::float32, all.row, output_role(2));
                                 g.norm_backward(n);
                                 return g;
                               },
                           .filter = filter_of(request.options, DType::float16)};
  return descriptions_of(recipe, request, *libraries);
}

}  // namespace tandem::cuda
