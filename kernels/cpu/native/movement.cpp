// Operators that only move elements: y[i…] = x[f(i)…] axis by axis, or a constant. All layouts on both sides.
#include <functional>
#include <optional>

#include "graph/half.h"
#include "kernels/cpu/native/copy.h"
#include "kernels/cpu/native/movement.h"

namespace tandem::native {
namespace {

using Index = std::int64_t;

// For every index of an axis of y, the index along x's axis; −1: the fill value.
struct AxisMap {
  int from_axis;  // −1: none, y repeats along this axis
  std::vector<Index> from;
};

// y = x's elements as the maps say, `fill` where they say −1.
// They are made with the kernel: a description of a long axis stays small.
KernelDescription gather_description(std::string kernel, const Operand& x, const Operand& y, std::function<std::vector<AxisMap>()> maps_of, double fill,
                                     int threads) {
  KernelDescription d{.kernel = std::move(kernel), .inputs = {x}, .outputs = {y}, .efficiency = 0.3};
  d.make = [=, maps_of = std::move(maps_of)] {
    const std::vector<AxisMap> maps = maps_of();
    std::vector<AxisOffsets> axes;
    bool holes = false;
    for (int axis = 0; axis < y.shape.rank(); ++axis) {
      const AxisMap& map = maps[static_cast<std::size_t>(axis)];
      const std::vector<Index> there = map.from_axis < 0 ? std::vector<Index>{} : axis_offsets(x.shape, x.layout, map.from_axis);
      AxisOffsets offsets{{}, axis_offsets(y.shape, y.layout, axis)};
      for (const Index i : map.from) {
        holes = holes || i < 0;
        offsets.from.push_back(i < 0 ? -1 : there.empty() ? 0 : there[static_cast<std::size_t>(i)]);
      }
      axes.push_back(std::move(offsets));
    }
    const Copy copy(axes, size_of(x.dtype));
    const PaddingZero padding(y);
    const auto bytes = static_cast<std::size_t>(y.bytes());
    std::uint64_t pattern = 0;
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

std::vector<Index> whole(Index n) {
  std::vector<Index> indices(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) indices[static_cast<std::size_t>(i)] = i;
  return indices;
}
std::vector<AxisMap> unchanged(const Shape& shape) {
  std::vector<AxisMap> maps;
  for (int axis = 0; axis < shape.rank(); ++axis) maps.push_back({axis, whole(shape[axis])});
  return maps;
}

// Both operands of one rank, in the layouts they have; where one has none, the other's.
struct Pair {
  Operand x, y;
};
std::optional<Pair> same_layout(const KernelRequest& request) {
  Operand x = request.inputs[0], y = request.outputs[0];
  if (x.layout.opaque() || y.layout.opaque()) return std::nullopt;
  if (x.layout.any() && x.shape.rank() == y.shape.rank()) x.layout = y.layout;
  x.layout = layout_or_row_major(x);
  if (y.layout.any() && x.shape.rank() == y.shape.rank()) y.layout = x.layout;
  y.layout = layout_or_row_major(y);
  return Pair{x, y};
}

// Index of y along a padded axis as an index of x, by the mode; −1: the value.
Index unpadded(Index i, Index begin, Index n, std::string_view mode) {
  Index j = i - begin;
  if (j >= 0 && j < n) return j;
  if (n == 0 || mode == "constant") return -1;
  if (mode == "edge") return std::clamp<Index>(j, 0, n - 1);
  if (mode == "wrap") return ((j % n) + n) % n;
  if (n == 1) return 0;
  const Index period = 2 * (n - 1);  // reflect
  j = ((j % period) + period) % period;
  return j < n ? j : period - j;
}

struct PadRule {
  Ints pads;
  std::string mode;
  double value;
};
PadRule pad_rule(const Attributes& attributes) {
  PadRule rule{attributes.ints("pads"), attributes.text("mode", "constant"), 0};
  if (const AttributeValue* value = attributes.find("value")) {
    if (const auto* f = std::get_if<float>(value)) rule.value = *f;
    if (const auto* i = std::get_if<std::int64_t>(value)) rule.value = static_cast<double>(*i);
    if (const auto* t = std::get_if<Tensor>(value)) rule.value = t->to_doubles().at(0);
  }
  return rule;
}

}  // namespace

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

// Where no view will do, a reorder between the two shapes.
Descriptions describe_reshape(const KernelRequest& request) {
  Descriptions all = describe_reorder(request);
  for (KernelDescription& d : all) d.kernel = "native.reshape";
  return all;
}

Descriptions describe_transpose(const KernelRequest& request) {
  Operand x = request.inputs[0], y = request.outputs[0];
  if (x.layout.opaque() || y.layout.opaque()) return {};
  x.layout = layout_or_row_major(x);
  y.layout = layout_or_row_major(y);
  Ints perm = request.attributes->ints("perm", {});
  if (perm.empty())
    for (int axis = y.shape.rank() - 1; axis >= 0; --axis) perm.push_back(axis);
  const auto maps = [=] {
    std::vector<AxisMap> maps;
    for (int axis = 0; axis < y.shape.rank(); ++axis) maps.push_back({static_cast<int>(perm[static_cast<std::size_t>(axis)]), whole(y.shape[axis])});
    return maps;
  };
  return {gather_description("native.transpose", x, y, maps, 0, request.options.threads)};
}

Descriptions describe_slice(const KernelRequest& request) {
  const auto pair = same_layout(request);
  if (!pair) return {};
  const auto maps = [slices = slice_axes(*request.attributes, pair->x.shape, pair->y.shape)] {
    std::vector<AxisMap> maps;
    int axis = 0;
    for (const SliceAxis& s : slices) {
      AxisMap map{axis++, {}};
      for (Index i = 0; i < s.size; ++i) map.from.push_back(s.start + i * s.step);
      maps.push_back(std::move(map));
    }
    return maps;
  };
  return {gather_description("native.slice", pair->x, pair->y, maps, 0, request.options.threads)};
}

Descriptions describe_slice_backward(const KernelRequest& request) {
  const auto pair = same_layout(request);
  if (!pair) return {};
  const auto maps = [y = pair->y.shape, slices = slice_axes(*request.attributes, pair->y.shape, pair->x.shape)] {
    std::vector<AxisMap> maps;
    int axis = 0;
    for (const SliceAxis& s : slices) {
      AxisMap map{axis, std::vector<Index>(static_cast<std::size_t>(y[axis]), -1)};
      for (Index i = 0; i < s.size; ++i) map.from[static_cast<std::size_t>(s.start + i * s.step)] = i;
      maps.push_back(std::move(map));
      ++axis;
    }
    return maps;
  };
  return {gather_description("native.slice_backward", pair->x, pair->y, maps, 0, request.options.threads)};
}

Descriptions describe_pad(const KernelRequest& request) {
  const auto pair = same_layout(request);
  if (!pair) return {};
  const PadRule rule = pad_rule(*request.attributes);
  const auto maps = [rule, x = pair->x.shape, y = pair->y.shape] {
    std::vector<AxisMap> maps;
    for (int axis = 0; axis < y.rank(); ++axis) {
      AxisMap map{axis, {}};
      for (Index i = 0; i < y[axis]; ++i) map.from.push_back(unpadded(i, rule.pads[static_cast<std::size_t>(axis)], x[axis], rule.mode));
      maps.push_back(std::move(map));
    }
    return maps;
  };
  return {gather_description("native.pad", pair->x, pair->y, maps, rule.value, request.options.threads)};
}

// Constant: the inner part comes back. Else each element of dx sums the places it was copied to.
Descriptions describe_pad_backward(const KernelRequest& request) {
  const auto pair = same_layout(request);
  if (!pair) return {};
  const PadRule rule = pad_rule(*request.attributes);
  const Operand &dy = pair->x, &dx = pair->y;
  if (rule.mode == "constant") {
    const auto maps = [=] {
      std::vector<AxisMap> maps;
      for (int axis = 0; axis < dx.shape.rank(); ++axis) {
        AxisMap map{axis, {}};
        for (Index i = 0; i < dx.shape[axis]; ++i) {
          const Index there = i + rule.pads[static_cast<std::size_t>(axis)];
          map.from.push_back(there >= 0 && there < dy.shape[axis] ? there : -1);
        }
        maps.push_back(std::move(map));
      }
      return maps;
    };
    return {gather_description("native.pad_backward", dy, dx, maps, 0, request.options.threads)};
  }
  if (dy.dtype != DType::float32 && dy.dtype != DType::float64) return {};
  KernelDescription d{.kernel = "native.pad_backward", .inputs = {dy}, .outputs = {dx}, .efficiency = 0.1};
  d.make = [=] {
    std::vector<AxisOffsets> axes;
    for (int axis = 0; axis < dx.shape.rank(); ++axis) {
      const std::vector<Index> there = axis_offsets(dx.shape, dx.layout, axis);
      AxisOffsets offsets{axis_offsets(dy.shape, dy.layout, axis), {}};
      for (Index i = 0; i < dy.shape[axis]; ++i)
        offsets.to.push_back(there[static_cast<std::size_t>(unpadded(i, rule.pads[static_cast<std::size_t>(axis)], dx.shape[axis], rule.mode))]);
      axes.push_back(std::move(offsets));
    }
    const Copy copy(axes, size_of(dy.dtype));
    const auto bytes = static_cast<std::size_t>(dx.bytes());
    return make_kernel([=](const Memory& m) {
      std::memset(m.outputs[0], 0, bytes);
      visit_float(dy.dtype, [&]<class T>() { copy.add(m.in<T>(0), m.out<T>(0)); });
    })();
  };
  return {d};
}

Descriptions describe_expand(const KernelRequest& request) {
  const auto pair = same_layout(request);
  if (!pair) return {};
  const auto maps = [x = pair->x.shape, y = pair->y.shape] {
    const int extra = y.rank() - x.rank();
    std::vector<AxisMap> maps;
    for (int axis = 0; axis < y.rank(); ++axis) {
      const bool repeats = axis < extra || x[axis - extra] == 1;
      maps.push_back({axis - extra < 0 ? -1 : axis - extra, repeats ? std::vector<Index>(static_cast<std::size_t>(y[axis]), 0) : whole(y[axis])});
    }
    return maps;
  };
  return {gather_description("native.expand", pair->x, pair->y, maps, 0, request.options.threads)};
}

Descriptions describe_tile(const KernelRequest& request) {
  const auto pair = same_layout(request);
  if (!pair) return {};
  const auto maps = [x = pair->x.shape, y = pair->y.shape] {
    std::vector<AxisMap> maps = unchanged(y);
    for (AxisMap& map : maps)
      for (Index& i : map.from) i %= x[map.from_axis];
    return maps;
  };
  return {gather_description("native.tile", pair->x, pair->y, maps, 0, request.options.threads)};
}

Descriptions describe_concat(const KernelRequest& request) {
  Operand y = request.outputs[0];
  if (y.layout.any())
    for (const Operand& x : request.inputs)
      if (!x.layout.any() && !x.layout.opaque() && y.layout.any()) y.layout = x.layout;
  y.layout = layout_or_row_major(y);
  if (y.layout.opaque()) return {};
  KernelDescription d{.kernel = "native.concat", .inputs = request.inputs, .outputs = {y}, .efficiency = 0.3};
  for (Operand& x : d.inputs)
    if (x.layout.any() || x.layout.opaque()) x.layout = y.layout;
  const int joined = normalize_axis(request.attributes->integer("axis"), y.shape.rank(), "Concat's axis");
  const int threads = request.options.threads;
  d.make = [=, inputs = d.inputs] {
    std::vector<Copy> copies;
    std::ptrdiff_t at = 0;
    for (const Operand& x : inputs) {
      std::vector<AxisOffsets> axes;
      for (int axis = 0; axis < y.shape.rank(); ++axis) {
        AxisOffsets offsets{axis_offsets(x.shape, x.layout, axis), axis_offsets(y.shape, y.layout, axis)};
        if (axis == joined) {
          const auto begin = offsets.to.begin() + at;
          offsets.to = std::vector<Index>(begin, begin + static_cast<std::ptrdiff_t>(x.shape[axis]));
        }
        axes.push_back(std::move(offsets));
      }
      at += static_cast<std::ptrdiff_t>(x.shape[joined]);
      copies.emplace_back(axes, size_of(x.dtype));
    }
    const PaddingZero padding(y);
    return make_kernel([=](const Memory& m) {
      for (std::size_t i = 0; i < copies.size(); ++i) copies[i].run(m.inputs[i], m.outputs[0], threads);
      if (padding.needed()) padding.run(m.outputs[0]);
    })();
  };
  return {d};
}

}  // namespace tandem::native
