// Pooling, convolutions and local response normalization by our own kernels, channels last: for what no library takes.
#include <algorithm>

#include "kernels/cuda/bodies/windows.h"
#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/native/batch_norm.h"
#include "kernels/cuda/native/bias.h"
#include "kernels/cuda/native/native.h"
#include "kernels/cuda/native/reduction.h"

namespace tandem::cuda {
namespace {

constexpr std::string_view place_family = "native.places", lrn_family = "native.lrn";

// x is the tensor that the window slides over, y what it gives.
std::optional<WindowGeometry> geometry_of(const Attributes& a, const Shape& x, const Shape& y) {
  const auto n = static_cast<std::size_t>(x.rank() - 2);
  if (n < 1 || n > 3) return std::nullopt;
  WindowGeometry g;
  for (int d = 0; d < 3; ++d) g.input[d] = g.output[d] = g.kernel[d] = g.stride[d] = g.dilation[d] = 1, g.begin[d] = g.end[d] = 0;
  const Ints kernel = a.ints("kernel_shape"), strides = a.ints("strides", Ints(n, 1)), pads = a.ints("pads", Ints(2 * n, 0)), dilations = a.ints("dilations", Ints(n, 1));
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t d = 3 - n + i;
    const auto narrow = [](std::int64_t v) { return static_cast<std::int32_t>(v); };
    g.input[d] = narrow(x.dims[2 + i]);
    g.output[d] = narrow(y.dims[2 + i]);
    g.kernel[d] = narrow(kernel[i]);
    g.stride[d] = narrow(strides[i]);
    g.begin[d] = narrow(pads[i]);
    g.end[d] = narrow(pads[n + i]);
    g.dilation[d] = narrow(dilations[i]);
  }
  return g;
}

std::optional<KernelDescription> channels_last_description(const KernelRequest& request, std::string_view kernel) {
  const int rank = request.inputs[0].shape.rank();
  if (rank < 2 || !is_storage_float(request.inputs[0].dtype)) return std::nullopt;
  KernelDescription d = description_of(request, kernel, Layout::channels_last(rank));
  for (std::vector<Operand>* operands : {&d.inputs, &d.outputs})
    for (Operand& o : *operands)
      if (o.present() && !o.layout.opaque() && o.shape.rank() == rank) o.layout = Layout::channels_last(rank);
  d.efficiency = 0.4;
  return d;
}

template <class Body>
Launches launches_of(const Body& body, std::int64_t elements) {
  return [body, blocks = blocks_for(elements, Body::threads)](void* stream) { launch(body, blocks, stream); };
}

Launches in_turn(std::vector<Launches> all) {
  return [all = std::move(all)](void* stream) {
    for (const Launches& launches : all) launches(stream);
  };
}

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
  const std::optional<WindowGeometry> g = geometry_of(*request.attributes, x, y);
  if (!g) return std::nullopt;
  d->efficiency = 0.02;
  return Convolution{*d, {*g, x[0], x[1], y[1], request.attributes->integer("group", 1)}};
}

bool relu_of(const Attributes& a) { return a.text("activation", "") == "Relu"; }

}  // namespace

Descriptions describe_max_pool(const KernelRequest& request, Libraries*) {
  const bool training = request.op == "MaxPoolTraining";
  std::optional<KernelDescription> d = channels_last_description(request, training ? "native.max_pool_training" : "native.max_pool");
  if (!d) return {};
  const Operand &x = d->inputs[0], &y = d->outputs[0];
  const std::optional<WindowGeometry> g = geometry_of(*request.attributes, x.shape, y.shape);
  if (!g) return {};
  if (training) d->outputs[1] = {DType::int32, y.shape, Layout::opaque(place_family)};
  const bool indices = !training && has(d->outputs, 1), column_major = request.attributes->integer("storage_order", 0) != 0;
  visit_storage(x.dtype, [&]<class T>() {
    d->make = launches([=, g = *g, elements = y.shape.elements(), channels = y.shape[1]](const Buffers& b) {
      return launches_of(MaxPoolBody<T>{b.in<T>(0), b.out<T>(0), training ? b.out<std::int32_t>(1) : nullptr, indices ? b.out<std::int64_t>(1) : nullptr, elements, channels, g, column_major}, elements);
    });
  });
  return {*d};
}

Descriptions describe_max_pool_backward(const KernelRequest& request, Libraries*) {
  std::optional<KernelDescription> d = channels_last_description(request, "native.max_pool_backward");
  if (!d || d->inputs[1].layout != Layout::opaque(place_family)) return {};
  const Operand &dy = d->inputs[0], &dx = d->outputs[0];
  const std::optional<WindowGeometry> g = geometry_of(*request.attributes, dx.shape, dy.shape);
  if (!g) return {};
  visit_storage(dy.dtype, [&]<class T>() {
    d->make = launches([g = *g, elements = dx.shape.elements(), channels = dx.shape[1]](const Buffers& b) {
      return launches_of(MaxPoolBackwardBody<T>{b.in<T>(0), b.in<std::int32_t>(1), b.out<T>(0), elements, channels, g}, elements);
    });
  });
  return {*d};
}

Descriptions describe_average_pool(const KernelRequest& request, Libraries*) {
  const bool backward = request.op == "AveragePoolBackward";
  std::optional<KernelDescription> d = channels_last_description(request, backward ? "native.average_pool_backward" : "native.average_pool");
  if (!d) return {};
  const Operand &in = d->inputs[0], &out = d->outputs[0];
  const std::optional<WindowGeometry> g = backward ? geometry_of(*request.attributes, out.shape, in.shape) : geometry_of(*request.attributes, in.shape, out.shape);
  if (!g) return {};
  const bool include_padding = request.attributes->integer("count_include_pad", 0) != 0;
  visit_storage(in.dtype, [&]<class T>() {
    d->make = launches([=, g = *g, elements = out.shape.elements(), channels = out.shape[1]](const Buffers& b) {
      if (backward) return launches_of(AveragePoolBackwardBody<T>{b.in<T>(0), b.out<T>(0), elements, channels, g, include_padding}, elements);
      return launches_of(AveragePoolBody<T>{b.in<T>(0), b.out<T>(0), elements, channels, g, include_padding}, elements);
    });
  });
  return {*d};
}

Descriptions describe_convolution(const KernelRequest& request, Libraries*) {
  const std::optional<ChannelSums> sums = channel_sums_of(request);
  const std::optional<NormalizedInput> input = normalized_input_of(request, 3);
  std::optional<Convolution> k = convolution_of(sums ? sums->request : request, "native.convolution", request.inputs[0].shape, request.outputs[0].shape);
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
      all.push_back(launches_of(ConvolutionBody<T>{x, b.in<T>(1), bias ? b.in<T>(2) : nullptr, b.out<T>(0), c, relu}, elements));
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
  std::optional<Convolution> k = convolution_of(request, transpose ? "native.convolution_transpose" : "native.convolution_backward_data", request.outputs[0].shape, request.inputs[0].shape);
  if (!k) return {};
  const bool relu = transpose && relu_of(*request.attributes), third = has(k->d.inputs, 2), bias = transpose && third;
  const Binder mask = third && !transpose ? mask_binder(k->d.outputs[0], 2) : Binder();
  visit_storage(k->d.inputs[0].dtype, [&]<class T>() {
    k->d.make = launches([=, c = k->c, elements = k->d.outputs[0].shape.elements()](const Buffers& b) -> Launches {
      const Launches gradient = launches_of(ConvolutionBackwardDataBody<T>{b.in<T>(0), b.in<T>(1), bias ? b.in<T>(2) : nullptr, b.out<T>(0), c, relu}, elements);
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
  std::optional<Convolution> k = convolution_of(request, "native.convolution_backward_weights", request.inputs[0].shape, request.inputs[1].shape);
  if (!k) return {};
  const std::optional<NormalizedInput> input = normalized_input_of(request, 2);
  const std::int64_t before = k->d.workspace = input ? input->workspace : 0;
  std::optional<ReductionPlan> sum;
  if (has(k->d.outputs, 1)) {
    sum = plan_channel_sum(k->d.inputs[1]);
    if (!sum) return {};
    k->d.workspace += sum->workspace;
  }
  visit_storage(k->d.inputs[0].dtype, [&]<class T>() {
    k->d.make = launches([=, c = k->c, elements = k->d.outputs[0].shape.elements()](const Buffers& b) -> Launches {
      const T* const x = input ? reinterpret_cast<const T*>(b.workspace) : b.in<T>(0);
      std::vector<Launches> all;
      if (input) all.push_back(input->bind(b));
      all.push_back(launches_of(ConvolutionBackwardWeightsBody<T>{x, b.in<T>(1), b.out<T>(0), c}, elements));
      if (sum) all.push_back(sum->bind(b.inputs[1], b.outputs[1], b.workspace + before));
      return in_turn(std::move(all));
    });
  });
  return {k->d};
}

Descriptions describe_lrn(const KernelRequest& request, Libraries*) {
  const bool backward = request.op == "LRNBackward", training = request.op == "LRNTraining";
  std::optional<KernelDescription> d = channels_last_description(request, backward ? "native.lrn_backward" : training ? "native.lrn_training" : "native.lrn");
  const Operand nothing{DType::uint8, Shape{0}, Layout::opaque(lrn_family)};
  if (!d || (backward && d->inputs[3] != nothing)) return {};
  if (training) d->outputs[1] = nothing;
  const Attributes& a = *request.attributes;
  const std::int64_t size = a.integer("size");
  const LrnGeometry g{d->inputs[0].shape.elements(),
                      static_cast<std::int32_t>(d->inputs[0].shape[1]),
                      static_cast<std::int32_t>((size - 1) / 2),
                      static_cast<std::int32_t>(size / 2),
                      static_cast<double>(a.real("alpha", 1e-4F)) / static_cast<double>(size),
                      static_cast<double>(a.real("beta", 0.75F)),
                      static_cast<double>(a.real("bias", 1.0F))};
  visit_storage(d->inputs[0].dtype, [&]<class T>() {
    d->make = launches([=](const Buffers& b) {
      if (backward) return launches_of(LrnBackwardBody<T>{b.in<T>(0), b.in<T>(1), b.in<T>(2), b.out<T>(0), g}, g.elements);
      return launches_of(LrnBody<T>{b.in<T>(0), b.out<T>(0), g}, g.elements);
    });
  });
  return {*d};
}

}  // namespace tandem::cuda
