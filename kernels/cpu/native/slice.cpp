// Slice {starts, axes, steps} copies a part of a tensor; its gradient puts that back among zeros.
#include "kernels/cpu/native/axis_copy.h"

namespace tandem::native {
namespace {

// What a Slice takes of each axis of x.
struct SliceAxis {
  std::int64_t start, step, size;
};
std::vector<SliceAxis> slice_axes(const Attributes& attributes, const Shape& x, const Shape& y) {
  std::vector<SliceAxis> all;
  for (int axis = 0; axis < x.rank(); ++axis) all.push_back({0, 1, x[axis]});
  const Ints &starts = attributes.ints("starts"), &axes = attributes.ints("axes");
  const Ints steps = attributes.ints("steps", Ints(axes.size(), 1));
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const int axis = static_cast<int>(axes[k]);
    all[static_cast<std::size_t>(axis)] = {starts[k], steps[k], y[axis]};
  }
  return all;
}

}  // namespace

Descriptions describe_slice(const KernelRequest& request) {
  const auto pair = same_layout(request);
  if (!pair) return {};
  std::vector<AxisMap> maps;
  for (const SliceAxis& s : slice_axes(*request.attributes, pair->x.shape, pair->y.shape))
    maps.push_back({static_cast<int>(maps.size()), [s](std::int64_t i) { return s.start + i * s.step; }});
  return {axis_copy("native.slice", pair->x, pair->y, maps, 0, request.options.threads)};
}

Descriptions describe_slice_backward(const KernelRequest& request) {
  const auto pair = same_layout(request);
  if (!pair) return {};
  std::vector<AxisMap> maps;
  for (const SliceAxis& s : slice_axes(*request.attributes, pair->y.shape, pair->x.shape))
    maps.push_back({static_cast<int>(maps.size()), [s](std::int64_t i) {
                      const std::int64_t k = (i - s.start) / s.step;
                      return (i - s.start) % s.step == 0 && k < s.size ? k : -1;
                    }});
  return {axis_copy("native.slice_backward", pair->x, pair->y, maps, 0, request.options.threads)};
}

}  // namespace tandem::native
