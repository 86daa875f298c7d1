// Convolutions by our own kernels, channels last: for what no library takes.
#include "kernels/cuda/bodies/convolution.h"
#include "kernels/cuda/native/batch_normalization.h"
#include "kernels/cuda/native/bias.h"
#include "kernels/cuda/native/reduce.h"
#include "kernels/cuda/native/window.h"

namespace tandem::cuda {
namespace {

struct Convolution {
  KernelDescription d;
  ConvolutionGeometry c;
};
// `x` and `y` are the operands of the forward convolution, wherever they stand.
std::optional<Convolution> convolution_of(const KernelRequest& request, std::string_view kernel, const Shape& x, const Shape& y) {
  std::optional<KernelDescription> d = channels_last_description(request, kernel);
  if (!d) return std::nullopt;
  for (const auto* operands : {&d->inputs, &d->outputs})
    for (const Operand& o : *operands)
      if (o.present() && o.dtype != d->inputs[0].dtype) return std::nullopt;
  const std::optional<WindowGeometry> g = window_geometry(*request.attributes, x, y);
  if (!g) return std::nullopt;
  d->efficiency = 0.02;
  return Convolution{*d, {*g, x[0], x[1], y[1], request.attributes->integer("group", 1)}};
}

bool relu_of(const Attributes& a) { return a.text("activation", "") == "Relu"; }

}  // namespace

Descriptions describe_convolution(const KernelRequest& request, Libraries*) {
  const std::optional<ChannelSums> sums = channel_sums_of(request);
  const std::optional<NormalizedInput> input = normalized_input_of(request, 3);
  std::optional<Convolution> k =
      convolution_of(sums ? sums->request : request, "native.convolution", request.inputs[0].shape, request.outputs[0].shape);
  if (!k) return {};
  const std::int64_t before = input ? input->workspace : 0;
  k->d.workspace = before + (sums ? sums->workspace : 0);
  if (sums) k->d.outputs.insert(k->d.outputs.end(), sums->outputs.begin(), sums->outputs.end());
  const bool relu = relu_of(*request.attributes), bias = has(k->d.inputs, 2);
  visit_storage(k->d.inputs[0].dtype, [&]<class T>() {
    k->d.make = launches([=, c = k->c, elements = k->d.outputs[0].shape.elements()](Buffers b) -> Launches {
      const T* const x = input ? reinterpret_cast<const T*>(b.workspace) : b.in<T>(0);
      std::vector<Launches> all;
      if (input) all.push_back(input->bind(b));
      all.push_back(launches_over(ConvolutionBody<T>{x, b.in<T>(1), bias ? b.in<T>(2) : nullptr, b.out<T>(0), c, relu}, elements));
      b.workspace += before;
      if (sums) all.push_back(sums->bind(b));
      return in_turn(std::move(all));
    });
  });
  return {k->d};
}

// ConvolutionBackwardData, perhaps masked, and ConvTranspose, which is the same with a bias.
Descriptions describe_convolution_backward_data(const KernelRequest& request, Libraries*) {
  const bool transpose = request.op == "ConvTranspose";
  std::optional<Convolution> k = convolution_of(request, transpose ? "native.convolution_transpose" : "native.convolution_backward_data",
                                                request.outputs[0].shape, request.inputs[0].shape);
  if (!k) return {};
  const bool relu = transpose && relu_of(*request.attributes), third = has(k->d.inputs, 2), bias = transpose && third;
  const Binder mask = third && !transpose ? mask_binder(k->d.outputs[0], 2) : Binder();
  visit_storage(k->d.inputs[0].dtype, [&]<class T>() {
    k->d.make = launches([=, c = k->c, elements = k->d.outputs[0].shape.elements()](const Buffers& b) -> Launches {
      const Launches gradient = launches_over(
          ConvolutionBackwardDataBody<T>{b.in<T>(0), b.in<T>(1), bias ? b.in<T>(2) : nullptr, b.out<T>(0), c, relu}, elements);
      if (!mask) return gradient;
      return [gradient, last = mask(b)](void* stream) {
        gradient(stream);
        last(stream);
      };
    });
  });
  return {k->d};
}

Descriptions describe_convolution_backward_weights(const KernelRequest& request, Libraries*) {
  std::optional<Convolution> k =
      convolution_of(request, "native.convolution_backward_weights", request.inputs[0].shape, request.inputs[1].shape);
  if (!k) return {};
  const std::optional<NormalizedInput> input = normalized_input_of(request, 2);
  const std::int64_t before = k->d.workspace = input ? input->workspace : 0;
  std::optional<ReductionPlan> sum;
  if (has(k->d.outputs, 1)) {
    sum = plan_channel_sum(k->d.inputs[1], request.options);
    if (!sum) return {};
    k->d.workspace += sum->workspace;
  }
  visit_storage(k->d.inputs[0].dtype, [&]<class T>() {
    k->d.make = launches([=, c = k->c, elements = k->d.outputs[0].shape.elements()](const Buffers& b) -> Launches {
      const T* const x = input ? reinterpret_cast<const T*>(b.workspace) : b.in<T>(0);
      std::vector<Launches> all;
      if (input) all.push_back(input->bind(b));
      all.push_back(launches_over(ConvolutionBackwardWeightsBody<T>{x, b.in<T>(1), b.out<T>(0), c}, elements));
      if (sum) all.push_back(sum->bind(b.inputs[1], b.outputs[1], b.workspace + before));
      return in_turn(std::move(all));
    });
  });
  return {k->d};
}

}  // namespace tandem::cuda
