// Numbers as integers of few bits, or as floats of 8 and less, which Cast rounds to. Where a QuantizeLinear meets its DequantizeLinear, as
// files of quantization-aware training have them, the second reads the levels of the first as floats: the integers between them are gone,
// and the gradient passes straight through the rounding, to the operand within the range and to the scale (Esser et al. 2019, LSQ); of
// floats Cast's gradient does the same. What only computes with integers has none.
#include <algorithm>
#include <limits>

#include "graph/operators/fold.h"
#include "graph/operators/gradient_rules.h"
#include "graph/operators/integer_arithmetic.h"

namespace tandem::operator_rows {
namespace {

constexpr TypeSet integers{DType::int8, DType::uint8, DType::int16, DType::uint16, DType::int32};
constexpr TypeSet quantized(integers, types::small_integers, types::small_floats, {});
constexpr TypeSet scales(types::floats, {DType::int32, DType::float8e8m0});
constexpr float endless = std::numeric_limits<float>::infinity();

DType attribute_type(InferContext& c, const char* name, DType absent) {
  const auto given = static_cast<DType>(c.attributes().integer(name, 0));
  return given == DType::undefined ? absent : given;
}

// How scale and zero point lie over x: one for all, one for each index of `axis`, or one for `block_size` of them.
void infer_granularity(InferContext& c) {
  const Shape &x = c.shape(0), &scale = c.shape(1);
  Attributes& a = c.node().attributes;
  std::int64_t block = a.integer("block_size", 0);
  if (block < 0) c.fail("block_size is ", block, ", expected 0 or more");
  const bool lone = scale.elements() == 1 && scale.rank() <= 1;
  const int axis = lone ? 0 : axis_of(c, a.integer("axis", 1), x.rank());
  if (!lone) block = std::min(block, std::max<std::int64_t>(1, x[axis]));  // a longer one is one
  a.set("block_size", block);
  a.set("axis", std::int64_t{axis});
  if (c.has_input(2) && c.shape(2) != scale && !(lone && c.shape(2).elements() == 1))
    c.fail("the zero point is ", c.shape(2), ", expected the scale's shape ", scale);
  if (lone) return;
  if (block == 0) {
    if (scale != Shape{x[axis]}) c.fail("the scale is ", scale, ", expected one number, or ", x[axis], " along axis ", axis, " of ", x);
  } else if (scale != with_dim(x, axis, (x[axis] + block - 1) / block)) {
    c.fail("the scale is ", scale, ", expected ", with_dim(x, axis, (x[axis] + block - 1) / block), " for blocks of ", block,
           " along axis ", axis, " of ", x);
  }
}

void set_output(InferContext& c, DType to) {
  c.node().attributes.set("output_dtype", static_cast<std::int64_t>(to));
  c.set_output(0, to, c.shape(0));
}
DType output_of(const ExpandContext& e) { return static_cast<DType>(e.attributes().integer("output_dtype")); }

void infer_quantize(InferContext& c) {
  infer_granularity(c);
  const DType stated = attribute_type(c, "output_dtype", DType::undefined);
  const DType to = c.has_input(2) ? c.input(2).dtype : stated == DType::undefined ? DType::uint8 : stated;
  if (stated != DType::undefined && stated != to) c.fail("output_dtype is ", static_cast<int>(stated), " and the zero point ", to);
  if (to == DType::int32 || !quantized.has(to))
    c.fail("output_dtype is ", static_cast<int>(to), ", expected integers of 16 bits or less, or floats of 8 or less");
  const DType precision = attribute_type(c, "precision", DType::float32);
  if (!is_float(precision)) c.fail("precision is ", static_cast<int>(precision), ", expected floats");
  set_output(c, to);
}

void infer_dequantize(InferContext& c) {
  infer_granularity(c);
  const DType to = attribute_type(c, "output_dtype", c.input(1).dtype);
  if (!is_float(to)) c.fail("output_dtype is ", static_cast<int>(to), ", expected floats");
  set_output(c, to);
}

// Samples stand anywhere but along an axis that has scales of its own.
void follow_quantization(FollowContext& c) {
  only_operand(c, 0);
  const bool lone = c.x(1).elements() == 1 && c.x(1).rank() <= 1;
  const BatchPlace place = c.place();
  if (!lone && place.axis == c.attributes().integer("axis"))
    c.fail("its scales are different along axis ", place.axis, ", which holds the samples");
  if (!lone && c.x(1).rank() == c.x().rank() && c.x(1)[place.axis] != 1 && c.attributes().integer("block_size") != 0)
    for (const int i : {1, 2})
      if (c.has_input(i)) c.repeat(i, place.axis, place.outer);
  c.set(0, place);
}

// A scale or zero point as floats that broadcast to x.
ValueId spread(ExpandContext& e, int input, DType to) {
  const Shape x = e.shape(e.x());
  const auto axis = static_cast<int>(e.attributes().integer("axis"));
  const std::int64_t block = e.attributes().integer("block_size");
  const ValueId v = cast(e, e.x(input), to);
  const Shape s = e.shape(v);
  if (s.elements() == 1 && s.rank() <= 1) return e.reshape(v, Shape{});
  if (block == 0) {
    Shape along(Ints(at(x.rank()), 1));
    along[axis] = x[axis];
    return e.reshape(v, along);
  }
  Shape apart = s;
  apart.dims.insert(apart.dims.begin() + axis + 1, 1);
  const ValueId blocks = e.broadcast_to(e.reshape(v, apart), with_dim(apart, axis + 1, block));
  return slice_axis(e, e.reshape(blocks, with_dim(s, axis, s[axis] * block)), axis, 0, x[axis]);
}

// The one number that all of a known tensor is.
std::optional<double> known_number(ExpandContext& e, int input) {
  if (!e.has_x(input)) return 0;
  const Value& v = e.graph()[e.x(input)];
  if (v.kind != ValueKind::constant) return std::nullopt;
  const std::vector<double> values = v.data->to_doubles();
  if (values.empty() || std::any_of(values.begin(), values.end(), [&](double x) { return x != values[0]; })) return std::nullopt;
  return values[0];
}

DType computed_in(DType x, DType scale) { return x == DType::float64 || scale == DType::float64 ? DType::float64 : DType::float32; }

std::vector<ValueId> expand_quantize(ExpandContext& e) {
  const DType to = output_of(e), wide = computed_in(e.type(e.x()).dtype, e.type(e.x(1)).dtype);
  ValueId x = cast(e, e.x(), wide), scale = spread(e, 1, wide);
  // Divided in fewer bits where the file says so.
  const auto precision = static_cast<DType>(e.attributes().integer("precision", 0));
  if (precision != DType::undefined && precision != wide) {
    x = cast(e, e.div(cast(e, x, precision), cast(e, scale, precision)), wide);
    scale = e.scalar(1, wide);
  }
  const std::optional<double> zero = known_number(e, 2);
  if (is_small_float(to)) {
    ValueId y = e.div(x, scale);
    if (zero != 0.0) y = e.add(y, spread(e, 2, wide));
    return {e.emit("Cast", {y}, {{"to", static_cast<std::int64_t>(to)}, {"saturate", e.attributes().integer("saturate", 1)}})};
  }
  const auto [low, high] = range_of(to);
  const auto levels = [&](ValueId v, ValueId by, double least, double most) {
    return e.emit("QuantizeLevels", {v, by}, {{"min", static_cast<float>(least)}, {"max", static_cast<float>(most)}});
  };
  if (zero) {
    ValueId y = levels(x, scale, low - *zero, high - *zero);
    if (*zero != 0) y = e.add(y, *zero);
    return {cast(e, y, to)};
  }
  const ValueId moved = e.add(levels(x, scale, -endless, endless), spread(e, 2, wide));
  return {cast(e, levels(moved, e.scalar(1, wide), low, high), to)};
}

// The floats that were cast to these integers, and hold the same, though a view of them was taken in between; absent: there are none.
ValueId levels_of(ExpandContext& e, ValueId integers) {
  const NodeId producer = e.graph()[integers].producer;
  if (!producer.present()) return {};
  const Node node = e.graph()[producer];
  if (node.op->name == "Cast") {
    const Node* const moved = made_by(e.graph(), node.inputs[0], "Add");
    return made_by(e.graph(), moved ? moved->inputs[0] : node.inputs[0], "QuantizeLevels") ? node.inputs[0] : ValueId{};
  }
  if (node.outputs.size() != 1 || node.inputs.size() != 1 || !is_view(operand_of(*node.op, 0).role)) return {};
  const ValueId levels = levels_of(e, node.inputs[0]);
  return levels.present() ? e.emit(node.op->name, {levels}, node.attributes) : ValueId{};
}

std::vector<ValueId> expand_dequantize(ExpandContext& e) {
  const DType to = output_of(e), wide = computed_in(to, e.type(e.x(1)).dtype);
  ValueId y = levels_of(e, e.x());
  y = cast(e, y.present() ? y : e.x(), wide);
  if (known_number(e, 2) != 0.0) y = e.sub(y, spread(e, 2, wide));
  return {cast(e, e.mul(y, spread(e, 1, wide)), to)};
}

void infer_dynamic(InferContext& c) {
  c.set_output(0, DType::uint8, c.shape(0));
  c.set_output(1, c.input(0).dtype, Shape{});
  c.set_output(2, DType::uint8, Shape{});
}

std::vector<ValueId> expand_dynamic(ExpandContext& e) {
  const DType dtype = e.type(e.x()).dtype;
  const ValueId zero = e.scalar(0, dtype);
  const auto end = [&](const char* reduce, const char* with_zero) {
    const ValueId all = e.emit(reduce, {e.x()}, {{"axes", all_axes(e.shape(e.x()).rank())}, {"keepdims", std::int64_t{0}}});
    return e.emit(with_zero, {all, zero});
  };
  const ValueId least = end("ReduceMin", "Min"), most = end("ReduceMax", "Max");
  const ValueId scale = e.mul(e.sub(most, least), 1.0 / 255);
  const ValueId place = cast(e, e.emit("QuantizeLevels", {e.neg(least), scale}, {{"min", 0.0F}, {"max", 255.0F}}), DType::uint8);
  return {e.emit("QuantizeLinear", {e.x(), scale, place}), scale, place};
}

}  // namespace

// y = saturate(round(x / scale) + zero_point)
Operator quantize_linear() {
  return {.name = "QuantizeLinear",
          .since = {10, 13, 19, 21, 23, 24, 25, 28}, .inputs = {2, 3}, .types = {{"T1", scales}, {"T2", scales}, {"T3", quantized}},
          .infer = infer_quantize,
          .follow = follow_quantization,
          .expand = expand_quantize,
          .precision = PrecisionRole::parts,
          .operands = {{"x"}, {"y_scale", OperandRole::constant}, {"y_zero_point", OperandRole::index}}};
}

// y = (x − zero_point) · scale
Operator dequantize_linear() {
  return {.name = "DequantizeLinear",
          .since = {10, 13, 19, 21, 23, 24, 25, 28},
          .inputs = {2, 3},
          .types = {{"T1", quantized}, {"T2", {types::floats, {DType::float8e8m0}}}, {"T1", quantized}},
          .infer = infer_dequantize,
          .follow = follow_quantization,
          .expand = expand_dequantize,
          .type_attribute = "output_dtype",
          .precision = PrecisionRole::parts,
          .operands = {{"x"}, {"x_scale", OperandRole::constant}, {"x_zero_point", OperandRole::index}}};
}

// The same under ONNX Runtime's domain, which had 16 bits first
Operator microsoft_quantize_linear() {
  Operator row = quantize_linear();
  row.domain = "com.microsoft";
  row.since = {1};
  return row;
}
Operator microsoft_dequantize_linear() {
  Operator row = dequantize_linear();
  row.domain = "com.microsoft";
  row.since = {1};
  return row;
}

// To uint8, with a scale and a zero point from the least and the greatest of x and 0
Operator dynamic_quantize_linear() {
  return {.name = "DynamicQuantizeLinear",
          .since = {11}, .inputs = {1, 1}, .outputs = {3, 3}, .types = {{"T1", types::floats}},
          .infer = infer_dynamic,
          .follow = [](FollowContext& c) { c.fail("its scale is that of all samples together"); },
          .expand = expand_dynamic,
          .precision = PrecisionRole::parts,
          .operands = {{"x"}}};
}

// round(x / scale) within bounds; with r what was rounded, dx = min ≤ r ≤ max ? dy / scale : 0, dscale = −dx · x / scale
Operator quantize_levels() {
  return {.name = "QuantizeLevels",
          .domain = "tandem",
          .since = {1}, .inputs = {2, 2},
          .infer = infer_broadcast,
          .differentiate =
              [](GradientContext& g) {
                const ValueId ratio = g.div(g.x(0), g.x(1));
                const float min = g.attributes().real("min", -endless), max = g.attributes().real("max", endless);
                const ValueId inside =
                    g.emit("ClipBackward", {g.dy(), g.emit("Round", {ratio})}, {{"min", min - 0.5F}, {"max", max + 0.5F}});
                const ValueId dx = g.div(inside, g.x(1));
                if (g.wants(0)) g.set_dx(0, g.sum_to(dx, g.shape(g.x(0))));
                if (g.wants(1)) g.set_dx(1, g.neg(g.sum_to(g.mul(dx, ratio), g.shape(g.x(1)))));
              },
          .fold = [](const FoldContext& c) -> Folded {
            const Attributes& a = c.node.attributes;
            const double min = a.real("min", -endless), max = a.real("max", endless);
            return visit_float(c.outputs[0].dtype, [&]<class T>() -> Folded {
              Tensor out(c.outputs[0]);
              const auto y = out.write<T>();
              const auto ix = broadcast_index(c.inputs[0].shape(), out.shape()), is = broadcast_index(c.inputs[1].shape(), out.shape());
              const auto from = c.inputs[0].values<T>(), scale = c.inputs[1].values<T>();
              for (std::size_t i = 0; i < y.size(); ++i)
                y[i] = static_cast<T>(std::clamp<double>(std::nearbyint(from[ix[i]] / scale[is[i]]), min, max));
              return std::vector{out};
            });
          },
          .elementwise = true,
          .parameters = {{"min", -endless}, {"max", endless}},
          .precision = PrecisionRole::wide};
}

}  // namespace tandem::operator_rows
