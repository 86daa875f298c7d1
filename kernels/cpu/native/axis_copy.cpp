// Turns the maps of the axes into the offsets that copy.h loops over; elements without a source are filled first.
#include "kernels/cpu/native/axis_copy.h"

#include "graph/half.h"
#include "graph/small_types.h"

namespace tandem::native {

std::vector<std::int64_t> whole_axis(std::int64_t n) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) indices[static_cast<std::size_t>(i)] = i;
  return indices;
}

KernelDescription axis_copy(std::string kernel, const Operand& x, const Operand& y, std::function<std::vector<AxisMap>()> maps_of, double fill, int threads) {
  KernelDescription d{.kernel = std::move(kernel), .inputs = {x}, .outputs = {y}, .efficiency = 0.3};
  d.make = [=, maps_of = std::move(maps_of)] {
    const std::vector<AxisMap> maps = maps_of();
    std::vector<AxisOffsets> axes;
    bool holes = false;
    for (int axis = 0; axis < y.shape.rank(); ++axis) {
      const AxisMap& map = maps[static_cast<std::size_t>(axis)];
      const std::vector<std::int64_t> there = map.from_axis < 0 ? std::vector<std::int64_t>{} : axis_offsets(x.shape, x.layout, map.from_axis);
      AxisOffsets offsets{{}, axis_offsets(y.shape, y.layout, axis)};
      for (const std::int64_t i : map.from) {
        holes = holes || i < 0;
        offsets.from.push_back(i < 0 ? -1 : there.empty() ? 0 : there[static_cast<std::size_t>(i)]);
      }
      axes.push_back(std::move(offsets));
    }
    const Copy copy(axes, size_of(x.dtype));
    const PaddingZero padding(y);
    const auto bytes = static_cast<std::size_t>(y.bytes());
    std::uint64_t pattern = 0;
    if (is_small(y.dtype)) pattern = element_of(fill, y.dtype);
    visit_storable(y.dtype, [&]<class T>() {
      const T value = number_as<T>(fill);
      std::memcpy(&pattern, &value, sizeof value);
    });
    return make_kernel([=](const Memory& m) {
      if (holes && pattern == 0) std::memset(m.outputs[0], 0, bytes);
      if (holes && pattern != 0)
        visit_size(size_of(y.dtype), [&]<class T>() { std::fill_n(m.out<T>(0), bytes / sizeof(T), static_cast<T>(pattern)); });
      copy.run(m.inputs[0], m.outputs[0], threads);
      if (padding.needed()) padding.run(m.outputs[0]);
    })();
  };
  return d;
}

std::optional<OperandPair> same_layout(const KernelRequest& request) {
  Operand x = request.inputs[0], y = request.outputs[0];
  if (x.layout.opaque() || y.layout.opaque()) return std::nullopt;
  if (x.layout.any() && x.shape.rank() == y.shape.rank()) x.layout = y.layout;
  x.layout = layout_or_row_major(x);
  if (y.layout.any() && x.shape.rank() == y.shape.rank()) y.layout = x.layout;
  y.layout = layout_or_row_major(y);
  return OperandPair{x, y};
}

}  // namespace tandem::native
