// Expand and Tile: copies that read the same indices of an axis again and again.
#include "kernels/cpu/native/axis_copy.h"

namespace tandem::native {

Descriptions describe_expand(const KernelRequest& request) {
  const auto pair = same_layout(request);
  if (!pair) return {};
  const Shape &x = pair->x.shape, &y = pair->y.shape;
  const int extra = y.rank() - x.rank();
  std::vector<AxisMap> maps;
  for (int axis = 0; axis < y.rank(); ++axis) maps.push_back({axis < extra || x[axis - extra] == 1 ? -1 : axis - extra});
  return {axis_copy("native.expand", pair->x, pair->y, maps, 0, request.options.threads)};
}

Descriptions describe_tile(const KernelRequest& request) {
  const auto pair = same_layout(request);
  if (!pair) return {};
  std::vector<AxisMap> maps;
  for (int axis = 0; axis < pair->y.shape.rank(); ++axis)
    maps.push_back({axis, [size = pair->x.shape[axis]](std::int64_t i) { return i % size; }});
  return {axis_copy("native.tile", pair->x, pair->y, maps, 0, request.options.threads)};
}

}  // namespace tandem::native
