// Products with an activation behind them, and products that are a gradient with the activation's slope behind them, as one graph of
// cuDNN's: in 16 bits, and in TF32. Both of Gelu's formulas are there, where cuBLASLt has the one by tanh.
#include <algorithm>

#include "kernels/cuda/cudnn/kernel.h"
#include "kernels/cuda/libraries.h"

namespace tandem::cuda {
namespace {

constexpr double efficiency = 0.2;  // of the peak: measured on an H100, by the engine that cuDNN puts first

struct Functions {
  std::string_view activation;
  cudnnPointwiseMode_t forward, backward;
};
constexpr Functions functions[] = {
    {"GeluErf", CUDNN_POINTWISE_GELU_FWD, CUDNN_POINTWISE_GELU_BWD},
    {"GeluTanh", CUDNN_POINTWISE_GELU_APPROX_TANH_FWD, CUDNN_POINTWISE_GELU_APPROX_TANH_BWD},
    {"Relu", CUDNN_POINTWISE_RELU_FWD, CUDNN_POINTWISE_RELU_BWD},
};

const Functions* functions_of(const KernelRequest& request) {
  const std::string activation = request.attributes->text("activation", "");
  const auto row = std::find_if(std::begin(functions), std::end(functions), [&](const Functions& f) { return f.activation == activation; });
  return row != std::end(functions) ? row : nullptr;
}

// Row-major operands of one type.
std::optional<KernelDescription> description(const KernelRequest& request, std::string_view family, const Libraries& libraries) {
  KernelDescription d = row_major_description(request, family);
  const DType dtype = d.inputs[0].dtype;
  if (!is_float(dtype) || dtype == DType::float64) return std::nullopt;
  for (const auto* operands : {&d.inputs, &d.outputs})
    for (const Operand& o : *operands)
      if (o.present() && (o.dtype != dtype || o.shape.elements() == 0)) return std::nullopt;
  d.efficiency = efficiency * speed_of_products(libraries.device(), dtype, request.options.tf32);
  return d;
}

}  // namespace

std::vector<KernelDescription> describe_cudnn_inner_product(const KernelRequest& request, Libraries* libraries) {
  const Functions* const f = functions_of(request);
  const std::optional<KernelDescription> d = f ? description(request, "cudnn.inner_product", *libraries) : std::nullopt;
  if (!d) return {};
  const DType dtype = d->inputs[0].dtype;
  const std::int64_t samples = d->inputs[0].shape[0], inner = d->inputs[0].shape.elements() / samples, outputs = d->outputs[0].shape[1];
  const bool bias = has(d->inputs, 2), kept = has(d->outputs, 1);
  const CudnnRecipe recipe{.family = "cudnn.inner_product", .description = *d, .build = [=, forward = f->forward] {
                             CudnnGraph g;
                             const auto before = kept ? g.matrix(dtype, samples, outputs, output_role(1))
                                                      : g.matrix(DType::float32, samples, outputs, std::nullopt);
                             const auto product = bias ? g.matrix(DType::float32, samples, outputs, std::nullopt) : before;
                             g.matmul(g.matrix(dtype, samples, inner, input_role(0)), g.matrix(dtype, inner, outputs, input_role(1), true),
                                      product);
                             if (bias) g.pointwise(CUDNN_POINTWISE_ADD, product, g.matrix(dtype, 1, outputs, input_role(2)), before);
                             g.pointwise(forward, before, std::nullopt, g.matrix(dtype, samples, outputs, output_role(0)));
                             return g;
                           }, .filter = filter_of(request.options, dtype)};
  return descriptions_of(recipe, request, *libraries);
}

std::vector<KernelDescription> describe_cudnn_inner_product_backward_data(const KernelRequest& request, Libraries* libraries) {
  const Functions* const f = functions_of(request);
  const std::optional<KernelDescription> d = f ? description(request, "cudnn.inner_product_backward_data", *libraries) : std::nullopt;
  if (!d) return {};
  const DType dtype = d->inputs[0].dtype;
  const std::int64_t samples = d->inputs[0].shape[0], outputs = d->inputs[0].shape[1], inner = d->outputs[0].shape.elements() / samples;
  const CudnnRecipe recipe{.family = "cudnn.inner_product_backward_data", .description = *d, .build = [=, backward = f->backward] {
                             CudnnGraph g;
                             const auto product = g.matrix(DType::float32, samples, inner, std::nullopt);
                             g.matmul(g.matrix(dtype, samples, outputs, input_role(0)), g.matrix(dtype, outputs, inner, input_role(1)),
                                      product);
                             g.pointwise_backward(backward, g.matrix(dtype, samples, inner, input_role(2)), product,
                                                  g.matrix(dtype, samples, inner, output_role(0)));
                             return g;
                           }, .filter = filter_of(request.options, dtype)};
  return descriptions_of(recipe, request, *libraries);
}

}  // namespace tandem::cuda
