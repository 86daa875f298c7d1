// Pooling by our own kernels, channels last: for what no library takes.
#include "kernels/cuda/bodies/pooling.h"
#include "kernels/cuda/native/channel_tiles.h"
#include "kernels/cuda/native/window.h"

namespace tandem::cuda {
namespace {

// Places of maxima, as int32.
constexpr std::string_view place_family = "native.places";

}  // namespace

Descriptions describe_max_pool(const KernelRequest& request, Libraries*) {
  const bool training = request.op == "MaxPoolTraining";
  std::optional<KernelDescription> d = channels_last_description(request, training ? "native.max_pool_training" : "native.max_pool");
  if (!d) return {};
  const Operand &x = d->inputs[0], &y = d->outputs[0];
  const std::optional<WindowGeometry> g = window_geometry(*request.attributes, x.shape, y.shape);
  if (!g) return {};
  if (training) d->outputs[1] = {DType::int32, y.shape, Layout::opaque(place_family)};
  const bool indices = !training && has(d->outputs, 1), column_major = request.attributes->integer("storage_order", 0) != 0;
  visit_storage(x.dtype, [&]<class T>() {
    visit_width<T>(y.shape[1], [&]<int width>() {
      d->make = launches([=, g = *g, packs = y.shape.elements() / width, channels = y.shape[1] / width](const Buffers& b) {
        return launches_over(MaxPoolBody<T, width>{b.in<T>(0), b.out<T>(0), training ? b.out<std::int32_t>(1) : nullptr,
                                                   indices ? b.out<std::int64_t>(1) : nullptr, packs, channels, g, column_major},
                             packs);
      });
    });
  });
  return {*d};
}

Descriptions describe_max_pool_backward(const KernelRequest& request, Libraries*) {
  std::optional<KernelDescription> d = channels_last_description(request, "native.max_pool_backward");
  if (!d || d->inputs[1].layout != Layout::opaque(place_family)) return {};
  const Operand &dy = d->inputs[0], &dx = d->outputs[0];
  const std::optional<WindowGeometry> g = window_geometry(*request.attributes, dx.shape, dy.shape);
  if (!g) return {};
  visit_storage(dy.dtype, [&]<class T>() {
    visit_width<T>(dx.shape[1], [&]<int width>() {
      d->make = launches([g = *g, packs = dx.shape.elements() / width, channels = dx.shape[1] / width](const Buffers& b) {
        return launches_over(MaxPoolBackwardBody<T, width>{b.in<T>(0), b.in<std::int32_t>(1), b.out<T>(0), packs, channels, g}, packs);
      });
    });
  });
  return {*d};
}

Descriptions describe_average_pool(const KernelRequest& request, Libraries*) {
  const bool backward = request.op == "AveragePoolBackward";
  std::optional<KernelDescription> d =
      channels_last_description(request, backward ? "native.average_pool_backward" : "native.average_pool");
  if (!d) return {};
  const Operand &in = d->inputs[0], &out = d->outputs[0];
  const std::optional<WindowGeometry> g =
      backward ? window_geometry(*request.attributes, out.shape, in.shape) : window_geometry(*request.attributes, in.shape, out.shape);
  if (!g) return {};
  const bool include_padding = request.attributes->integer("count_include_pad", 0) != 0;
  visit_storage(in.dtype, [&]<class T>() {
    visit_width<T>(out.shape[1], [&]<int width>() {
      d->make = launches([=, g = *g, packs = out.shape.elements() / width, channels = out.shape[1] / width](const Buffers& b) {
        if (backward)
          return launches_over(AveragePoolBackwardBody<T, width>{b.in<T>(0), b.out<T>(0), packs, channels, g, include_padding}, packs);
        return launches_over(AveragePoolBody<T, width>{b.in<T>(0), b.out<T>(0), packs, channels, g, include_padding}, packs);
      });
    });
  });
  return {*d};
}

}  // namespace tandem::cuda
