// Convolutions, channels last, in float32, bfloat16 and float16 (accumulated in float32). One spatial axis is treated as
// two. Bias and Relu behind a convolution, sums by channel, and the normalization of what it reads are part of cuDNN's graph
// where it has an engine for that, else launches of our own stand before and behind.
#include "kernels/cuda/cudnn/kernel.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/native/batch_normalization.h"
#include "kernels/cuda/native/bias.h"
#include "kernels/cuda/native/reduce.h"

namespace tandem::cuda {
namespace {

constexpr double efficiency = 0.6;

// [N,C,W] as [N,C,1,W].
Dims dims_of(const Shape& shape) {
  Dims d = shape.dims;
  if (d.size() == 3) d.insert(d.begin() + 2, 1);
  return d;
}

Window window_of(const Attributes& a) {
  Window w;
  w.kernel = a.ints("kernel_shape");
  const std::size_t n = w.kernel.size();
  w.strides = a.ints("strides", Ints(n, 1));
  w.dilations = a.ints("dilations", Ints(n, 1));
  const Ints pads = a.ints("pads", Ints(2 * n, 0));
  w.pads_begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(n));
  w.pads_end.assign(pads.begin() + static_cast<std::ptrdiff_t>(n), pads.end());
  if (n == 1) {
    for (Dims* d : {&w.kernel, &w.strides, &w.dilations}) d->insert(d->begin(), 1);
    for (Dims* d : {&w.pads_begin, &w.pads_end}) d->insert(d->begin(), 0);
  }
  return w;
}

// A description with every operand channels last, where cuDNN can take the types and ranks at all.
std::optional<KernelDescription> convolution_description(const KernelRequest& request, const Libraries& libraries) {
  const Operand& first = request.inputs[0];
  const int rank = first.shape.rank();
  if (rank < 3 || rank > 5 || !is_float(first.dtype) || first.dtype == DType::float64) return std::nullopt;
  KernelDescription d = description_of(request, "cudnn", Layout::channels_last(rank));
  for (std::vector<Operand>* operands : {&d.inputs, &d.outputs})
    for (Operand& o : *operands) {
      if (!o.present()) continue;
      if (o.shape.rank() == rank) o.layout = Layout::channels_last(rank);
      if (o.dtype != first.dtype) return std::nullopt;
      if (o.shape.elements() == 0) return std::nullopt;
    }
  d.efficiency = efficiency * speed_of_products(libraries.device(), first.dtype, request.options.tf32);
  return d;
}

Dims per_channel(std::int64_t channels, std::size_t rank) {
  Dims d(rank, 1);
  d[1] = channels;
  return d;
}

// max(0, x · factor + shift) by channel, in the types that cuDNN's kernels of it want.
CudnnGraph::TensorId normalized(CudnnGraph& g, DType dtype, const Dims& x, int factor) {
  const Dims c = per_channel(x[1], x.size());
  const auto product = g.virtual_tensor(DType::float32, x), sum = g.virtual_tensor(DType::float32, x), result = g.virtual_tensor(dtype, x);
  g.pointwise(CUDNN_POINTWISE_MUL, g.tensor(dtype, x, input_role(0)), g.tensor(dtype, c, input_role(factor)), product);
  g.pointwise(CUDNN_POINTWISE_ADD, product, g.tensor(dtype, c, input_role(factor + 1)), sum);
  g.pointwise(CUDNN_POINTWISE_RELU_FWD, sum, std::nullopt, result);
  return result;
}

}  // namespace

std::vector<KernelDescription> describe_cudnn_convolution(const KernelRequest& request, Libraries* libraries) {
  const std::optional<ChannelSums> sums = channel_sums_of(request);
  const std::optional<NormalizedInput> input = normalized_input_of(request, 3);
  std::optional<KernelDescription> d = convolution_description(sums ? sums->request : request, *libraries);
  if (!d) return {};
  if (sums) d->outputs.insert(d->outputs.end(), sums->outputs.begin(), sums->outputs.end());
  const Attributes& a = *request.attributes;
  const DType dtype = d->inputs[0].dtype;
  const bool bias = has(d->inputs, 2), relu = a.text("activation", "") == "Relu";
  const Dims x = dims_of(d->inputs[0].shape), w = dims_of(d->inputs[1].shape), y = dims_of(d->outputs[0].shape);
  const Window window = window_of(a);
  CudnnRecipe plain{.family = "cudnn.convolution", .description = *d, .build = [=] {
                      CudnnGraph g;
                      g.convolution(g.tensor(dtype, x, input ? scratch_role : input_role(0)), g.tensor(dtype, w, input_role(1)),
                                    g.tensor(dtype, y, output_role(0)), window, DType::float32);
                      return g;
                    }, .filter = filter_of(request.options, dtype)};
  if (!bias && !relu && !sums && !input) return descriptions_of(plain, request, *libraries);
  if (sums && (bias || relu)) return {};

  CudnnRecipe fused = plain;
  fused.family = input ? "cudnn.convolution.normalizing" : sums ? "cudnn.convolution.sums" : "cudnn.convolution.fused";
  fused.build = [=] {
    CudnnGraph g;
    const auto out = g.tensor(dtype, y, output_role(0));
    auto last = bias || relu ? g.virtual_tensor(DType::float32, y) : out;
    g.convolution(input ? normalized(g, dtype, x, 3) : g.tensor(dtype, x, input_role(0)), g.tensor(dtype, w, input_role(1)), last, window,
                  DType::float32);
    if (bias) {
      const auto sum = relu ? g.virtual_tensor(DType::float32, y) : out;
      g.pointwise(CUDNN_POINTWISE_ADD, last, g.tensor(dtype, per_channel(y[1], y.size()), input_role(2)), sum);
      last = sum;
    }
    if (relu) g.pointwise(CUDNN_POINTWISE_RELU_FWD, last, std::nullopt, out);
    if (sums) {
      const Dims c = per_channel(y[1], y.size());
      g.channel_sums(out, g.tensor(DType::float32, c, output_role(1)), g.tensor(DType::float32, c, output_role(2)));
    }
    return g;
  };
  std::vector<KernelDescription> all = descriptions_of(fused, request, *libraries);
  if (input) plain.before = input->bind;
  const std::int64_t before = input ? input->workspace : 0;
  plain.own_workspace = before + (sums ? sums->workspace : 0);
  if (sums)
    plain.after = [before, bind = sums->bind](Buffers b) {
      b.workspace += before;
      return bind(b);
    };
  else if (bias || relu)
    plain.after = bias_binder(d->outputs[0], bias ? 2 : -1, relu);
  plain.description.efficiency *= 0.9;  // what stands in between is read once more
  for (KernelDescription& k : descriptions_of(plain, request, *libraries)) all.push_back(std::move(k));
  return all;
}

std::vector<KernelDescription> describe_cudnn_convolution_backward_data(const KernelRequest& request, Libraries* libraries) {
  const std::optional<KernelDescription> d = convolution_description(request, *libraries);
  if (!d) return {};
  const DType dtype = d->inputs[0].dtype;
  const Dims dy = dims_of(d->inputs[0].shape), w = dims_of(d->inputs[1].shape), dx = dims_of(d->outputs[0].shape);
  const Window window = window_of(*request.attributes);
  CudnnRecipe plain{.family = "cudnn.convolution_backward_data", .description = *d, .build = [=] {
                      CudnnGraph g;
                      g.convolution_backward_data(g.tensor(dtype, dy, input_role(0)), g.tensor(dtype, w, input_role(1)),
                                                  g.tensor(dtype, dx, output_role(0)), window, DType::float32);
                      return g;
                    }, .filter = filter_of(request.options, dtype)};
  if (!has(d->inputs, 2)) return descriptions_of(plain, request, *libraries);

  CudnnRecipe fused = plain;
  fused.family = "cudnn.convolution_backward_data.fused";
  fused.build = [=] {
    CudnnGraph g;
    const auto whole = g.virtual_tensor(DType::float32, dx);
    g.convolution_backward_data(g.tensor(dtype, dy, input_role(0)), g.tensor(dtype, w, input_role(1)), whole, window, DType::float32);
    g.pointwise_backward(CUDNN_POINTWISE_RELU_BWD, g.tensor(dtype, dx, input_role(2)), whole, g.tensor(dtype, dx, output_role(0)));
    return g;
  };
  std::vector<KernelDescription> all = descriptions_of(fused, request, *libraries);
  plain.after = mask_binder(d->outputs[0], 2);
  plain.description.efficiency *= 0.9;  // dx is read and written once more
  for (KernelDescription& k : descriptions_of(plain, request, *libraries)) all.push_back(std::move(k));
  return all;
}

// y = the data gradient of the convolution with these weights, whose output x is.
std::vector<KernelDescription> describe_cudnn_convolution_transpose(const KernelRequest& request, Libraries* libraries) {
  const std::optional<KernelDescription> d = convolution_description(request, *libraries);
  if (!d) return {};
  const bool bias = has(d->inputs, 2), relu = request.attributes->text("activation", "") == "Relu";
  const DType dtype = d->inputs[0].dtype;
  const Dims x = dims_of(d->inputs[0].shape), w = dims_of(d->inputs[1].shape), y = dims_of(d->outputs[0].shape);
  const Window window = window_of(*request.attributes);
  CudnnRecipe recipe{.family = "cudnn.convolution_transpose", .description = *d, .build = [=] {
                       CudnnGraph g;
                       g.convolution_backward_data(g.tensor(dtype, x, input_role(0)), g.tensor(dtype, w, input_role(1)),
                                                   g.tensor(dtype, y, output_role(0)), window, DType::float32);
                       return g;
                     }, .filter = filter_of(request.options, dtype)};
  if (bias || relu) recipe.after = bias_binder(d->outputs[0], bias ? 2 : -1, relu);
  return descriptions_of(recipe, request, *libraries);
}

std::vector<KernelDescription> describe_cudnn_convolution_backward_weights(const KernelRequest& request, Libraries* libraries) {
  const std::optional<KernelDescription> d = convolution_description(request, *libraries);
  if (!d) return {};
  const DType dtype = d->inputs[0].dtype;
  const Dims x = dims_of(d->inputs[0].shape), dy = dims_of(d->inputs[1].shape), dw = dims_of(d->outputs[0].shape);
  const Window window = window_of(*request.attributes);
  const std::optional<NormalizedInput> input = normalized_input_of(request, 2);
  EngineFilter filter = filter_of(request.options, dtype);
  // cuDNN 9.19's engines 1 and 20 gave wrong gradients on an H100 in two groups with unequal pads. Which of the two it takes is not known.
  if (window.pads_begin != window.pads_end || request.attributes->integer("group", 1) != 1) filter.without = {1, 20};
  // Engine 17 rounds as Winograd's way does and does not say so: float32 gradients were off by 2 parts in 10⁵ there.
  if (!request.options.winograd && dtype == DType::float32) filter.without.push_back(17);
  CudnnRecipe recipe{.family = "cudnn.convolution_backward_weights", .description = *d, .build = [=] {
                       CudnnGraph g;
                       g.convolution_backward_weights(g.tensor(dtype, x, input ? scratch_role : input_role(0)),
                                                      g.tensor(dtype, dy, input_role(1)), g.tensor(dtype, dw, output_role(0)), window,
                                                      DType::float32);
                       return g;
                     }, .filter = filter};
  if (input) {
    if (has(d->outputs, 1)) return {};
    CudnnRecipe fused = recipe;
    fused.family = "cudnn.convolution_backward_weights.normalizing";
    fused.build = [=] {
      CudnnGraph g;
      g.convolution_backward_weights(normalized(g, dtype, x, 2), g.tensor(dtype, dy, input_role(1)), g.tensor(dtype, dw, output_role(0)),
                                     window, DType::float32);
      return g;
    };
    std::vector<KernelDescription> all = descriptions_of(fused, request, *libraries);
    recipe.before = input->bind;
    recipe.own_workspace = input->workspace;
    recipe.description.efficiency *= 0.9;  // x is read, and what is made of it written, once more
    for (KernelDescription& k : descriptions_of(recipe, request, *libraries)) all.push_back(std::move(k));
    return all;
  }
  if (has(d->outputs, 1)) {
    const std::optional<ReductionPlan> sum = plan_channel_sum(d->inputs[1], request.options);
    if (!sum) return {};
    recipe.own_workspace = sum->workspace;
    recipe.after = [sum = *sum](const Buffers& b) { return sum.bind(b.inputs[1], b.outputs[1], b.workspace); };
  }
  return descriptions_of(recipe, request, *libraries);
}

}  // namespace tandem::cuda
