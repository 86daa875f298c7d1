// Expand and Tile: copies that read the same indices of an axis again and again.
#include "kernels/cpu/native/axis_copy.h"

namespace tandem::native {

Descriptions describe_expand(const KernelRequest& request) {
  const auto pair = same_layout(request);
  if (!pair) return {};
  const auto maps = [x = pair->x.shape, y = pair->y.shape] {
    const int extra = y.rank() - x.rank();
    std::vector<AxisMap> maps;
    for (int axis = 0; axis < y.rank(); ++axis) {
      const bool repeats = axis < extra || x[axis - extra] == 1;
      maps.push_back({axis - extra < 0 ? -1 : axis - extra, repeats ? std::vector<std::int64_t>(static_cast<std::size_t>(y[axis]), 0) : whole_axis(y[axis])});
    }
    return maps;
  };
  return {axis_copy("native.expand", pair->x, pair->y, maps, 0, request.options.threads)};
}

Descriptions describe_tile(const KernelRequest& request) {
  const auto pair = same_layout(request);
  if (!pair) return {};
  const auto maps = [x = pair->x.shape, y = pair->y.shape] {
    std::vector<AxisMap> maps;
    for (int axis = 0; axis < y.rank(); ++axis) {
      maps.push_back({axis, whole_axis(y[axis])});
      for (std::int64_t& i : maps.back().from) i %= x[axis];
    }
    return maps;
  };
  return {axis_copy("native.tile", pair->x, pair->y, maps, 0, request.options.threads)};
}

}  // namespace tandem::native
