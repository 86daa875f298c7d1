// Turns the maps of the axes into the offsets that copy.h loops over; elements without a source are filled first.
#include "kernels/cpu/native/axis_copy.h"

#include "graph/half.h"
#include "graph/small_types.h"

namespace tandem::native {

namespace {

std::int64_t indices_of(const AxisLoops& loops) {
  std::int64_t sum = 0;
  for (const CopyNest& nest : loops) {
    std::int64_t n = 1;
    for (const CopyLoop& loop : nest.loops) n *= loop.size;
    sum += n;
  }
  return sum;
}

}  // namespace

KernelDescription axis_copy(std::string kernel, const Operand& x, const Operand& y, std::vector<AxisMap> maps, double fill, int threads) {
  KernelDescription d{.kernel = std::move(kernel), .inputs = {x}, .outputs = {y}, .efficiency = 0.3};
  d.make = [=, maps = std::move(maps)] {
    std::vector<AxisLoops> axes;
    bool holes = false;
    for (int axis = 0; axis < y.shape.rank(); ++axis) {
      const AxisMap& map = maps[static_cast<std::size_t>(axis)];
      const AxisOffsets from = map.from_axis < 0 ? AxisOffsets() : AxisOffsets(x.shape, x.layout, map.from_axis),
                        to(y.shape, y.layout, axis);
      axes.push_back(map.from ? loops_from(map.from, y.shape[axis], from, to) : loops_along(y.shape[axis], from, to));
      holes = holes || indices_of(axes.back()) < y.shape[axis];
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
