#include "graph/operators/sampling.h"

namespace tandem {
namespace {

ValueId clip(GraphBuilder& b, ValueId x, double low, double high) {
  return b.emit("Min", {b.emit("Max", {x, b.scalar(low, b.type(x).dtype)}), b.scalar(high, b.type(x).dtype)});
}

// The triangle wave between low and high that is x in between.
ValueId reflect(GraphBuilder& b, ValueId x, double low, double high) {
  const double span = high - low;
  if (span <= 0) return clip(b, x, low, low);
  const ValueId distance = b.emit("Abs", {b.add(x, -low)});
  const ValueId turns = b.mul(b.emit("Floor", {b.mul(distance, 1 / (2 * span))}), 2 * span);
  return b.add(b.neg(b.emit("Abs", {b.add(b.sub(distance, turns), -span)})), span + low);
}

// Coefficients of t⁰, t¹, ... of each tap's weight, t being how far the place is behind the tap at offset 0.
struct Kernel {
  std::vector<double> offsets;
  std::vector<std::vector<double>> powers;
};
Kernel kernel_of(TapMode mode) {
  constexpr double a = -0.75;
  if (mode == TapMode::linear) return {{0, 1}, {{1, 0}, {-1, 1}}};
  return {{-1, 0, 1, 2}, {{0, 1, 0, 0}, {a, 0, -a, 0}, {-2 * a, -(a + 3), 2 * a + 3, a}, {a, a + 2, -(a + 2), -a}}};
}

}  // namespace

ValueId constant_row(GraphBuilder& b, const std::vector<double>& values, DType dtype) {
  return b.graph().add_constant("constants", Tensor::of<double>(Shape{std::ssize(values)}, values).cast(dtype));
}

ValueId constant_along(GraphBuilder& b, const std::vector<double>& values, int axis, int rank, DType dtype) {
  Shape shape(Ints(at(rank), 1));
  shape[axis] = std::ssize(values);
  return b.graph().add_constant("constants", Tensor::of<double>(shape, values).cast(dtype));
}

Taps taps_at(GraphBuilder& b, ValueId place, const TapAxis& axis, TapMode mode, Outside outside, DType weights) {
  const DType dtype = b.type(place).dtype;
  const double last = static_cast<double>(axis.size - 1);
  Shape shape = b.shape(place);
  shape.dims.push_back(1);
  place = b.reshape(place, shape);
  if (mode != TapMode::cubic && outside != Outside::zeros) {
    if (outside == Outside::reflection) place = reflect(b, place, axis.low, axis.high);
    place = clip(b, place, 0, last);
  }
  Taps taps;
  ValueId index;
  if (mode == TapMode::nearest) {
    index = b.emit("Round", {place});
    taps.k = 1;
    taps.weight = b.broadcast_to(b.scalar(1, weights), b.shape(index));
  } else {
    const Kernel kernel = kernel_of(mode);
    taps.k = std::ssize(kernel.offsets);
    const ValueId before = b.emit("Floor", {place}), t = b.sub(place, before);
    index = b.add(before, constant_row(b, kernel.offsets, dtype));
    ValueId weight = constant_row(b, kernel.powers.back(), dtype);
    for (auto power = kernel.powers.rbegin() + 1; power != kernel.powers.rend(); ++power)
      weight = b.add(b.mul(weight, t), constant_row(b, *power, dtype));
    taps.weight = cast(b, weight, weights);
    if (mode == TapMode::cubic && outside == Outside::reflection) index = reflect(b, index, axis.low, axis.high);
  }
  const ValueId inside = clip(b, index, 0, last);
  if (outside != Outside::zeros) index = inside;
  taps.index = b.mul(inside, static_cast<double>(axis.stride));
  if (outside == Outside::zeros)
    taps.index =
        b.emit("Where", {b.emit("Equal", {inside, index}), taps.index, b.scalar(-4.0 * static_cast<double>(axis.elements), dtype)});
  return taps;
}

JoinedTaps join(GraphBuilder& b, const std::vector<Taps>& axes) {
  ValueId index = axes[0].index, weight = axes[0].weight;
  for (std::size_t i = 1; i < axes.size(); ++i) {
    const auto pair = [&](ValueId left, ValueId right, std::string_view op) {
      Shape l = b.shape(left), r = b.shape(right);
      l.dims.push_back(1);
      r.dims.insert(r.dims.end() - 1, 1);
      const ValueId y = b.emit(op, {b.reshape(left, l), b.reshape(right, r)});
      Shape merged = b.shape(y);
      const std::int64_t last = merged.dims.back();
      merged.dims.pop_back();
      merged.dims.back() *= last;
      return b.reshape(y, merged);
    };
    index = pair(index, axes[i].index, "Add");
    weight = pair(weight, axes[i].weight, "Mul");
  }
  return {cast(b, index, DType::int64), weight};
}

ValueId sample_rows(GraphBuilder& b, ValueId x, ValueId index, ValueId weight, bool fixed_weights) {
  return b.emit("SampleRows", {x, index, weight}, {{"fixed_weights", std::int64_t{fixed_weights}}});
}

ValueId to_rows(GraphBuilder& b, ValueId x) {
  const Shape shape = b.shape(x);
  return b.transpose(b.reshape(x, Shape{shape[0], shape[1], product(shape, 2, shape.rank())}), {0, 2, 1});
}

ValueId from_rows(GraphBuilder& b, ValueId rows, const Ints& spatial) {
  Shape shape{b.shape(rows)[0], b.shape(rows)[2]};
  shape.dims.insert(shape.dims.end(), spatial.begin(), spatial.end());
  return b.reshape(b.transpose(rows, {0, 2, 1}), shape);
}

}  // namespace tandem
