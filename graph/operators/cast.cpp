// From one element type to another. Between floats the gradient is cast back, and it passes straight through the rounding to a small
// type of floats, within its range: the gradient of such a value is a float of 32 bits or more. Nothing flows through integers.
#include "graph/operators/fold.h"
#include "graph/small_types.h"

namespace tandem::operator_rows {
namespace {

DType foldable(DType t) { return t == DType::float16 || t == DType::bfloat16 ? DType::undefined : t; }

Folded fold_cast(const FoldContext& c) {
  const DType from = foldable(c.inputs[0].dtype()), to = foldable(c.outputs[0].dtype);
  if (size_of(from) == 0 || size_of(to) == 0) return std::nullopt;
  if ((is_float(from) || is_small_float(from)) && !is_float(to) && !is_small_float(to))
    for (const double v : c.inputs[0].to_doubles())
      if (!(v > -9.2e18 && v < 9.2e18)) return std::nullopt;  // C++ does not say what the cast would give
  return std::vector{c.inputs[0].cast(to, rounding_of(c.node.attributes))};
}

// What rounds to the largest or less: half a step beyond it.
float end_of_range(DType t) {
  if (t == DType::float8e8m0) return std::numeric_limits<float>::max();
  const std::uint8_t largest = format_of(t).largest;
  return static_cast<float>(1.5 * number_of(largest, t) - 0.5 * number_of(static_cast<std::uint8_t>(largest - 1), t));
}

void differentiate_cast(GradientContext& g) {
  const DType x = g.type(g.x()).dtype, y = g.type(g.y()).dtype, dy = g.type(g.dy()).dtype;
  if (is_small_float(x)) return g.set_dx(dy == DType::float64 ? g.dy() : cast(g, g.dy(), DType::float32));
  if (!is_float(x) || !is_float(dy)) return;
  const ValueId dx = cast(g, g.dy(), x);
  if (!is_small_float(y)) return g.set_dx(dx);
  const float end = end_of_range(y);
  g.set_dx(g.emit("ClipBackward", {dx, g.x()}, {{"min", y == DType::float8e8m0 ? 0.0F : -end}, {"max", end}}));
}

// No kernel goes from one small type to another.
std::vector<ValueId> expand_cast(ExpandContext& e) {
  const DType x = e.type(e.x()).dtype, to = static_cast<DType>(e.attributes().integer("to"));
  if (to == x) return {e.x()};
  if (is_small(x) && is_small(to)) return {e.emit("Cast", {cast(e, e.x(), DType::float32)}, e.attributes())};
  return {};
}

void infer_to(InferContext& c, DType to) {
  rounding_of(c.attributes());  // fails for a mode that there is not
  c.set_output(0, to, c.shape(0));
}

}  // namespace

Operator cast_operator() {
  return {.name = "Cast",
          .since = {1, 6, 9, 13, 19, 21, 23, 24, 25, 28}, .types = {{"T1", types::stored}},
          .infer =
              [](InferContext& c) {
                const DType to = static_cast<DType>(c.attributes().integer("to"));
                if (size_of(to) == 0) c.fail("to is ", c.attributes().integer("to"), ", a type that is not supported");
                infer_to(c, to);
              },
          .follow = follow_broadcast,
          .linear = Linear::sum,
          .differentiate = differentiate_cast,
          .expand = expand_cast,
          .fold = fold_cast,
          .type_attribute = "to", .precision = PrecisionRole::wide,
          .operands = {{"input", OperandRole::view}}};
}

Operator cast_like() {
  return {.name = "CastLike",
          .since = {15, 19, 21, 23, 24, 25}, .inputs = {2, 2}, .types = {{"T1", types::stored}, {"T2", types::stored}},
          .infer = [](InferContext& c) { infer_to(c, c.input(1).dtype); },
          .follow = [](FollowContext& c) { c.set(0, c.place()); },
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            Attributes attributes = e.attributes();
            attributes.set("to", static_cast<std::int64_t>(e.type(e.x(1)).dtype));
            return {e.emit("Cast", {e.x(0)}, attributes)};
          },
          .fold = fold_cast,
          .precision = PrecisionRole::parts,
          .operands = {{"input", OperandRole::view}, {"target_type", OperandRole::index}}};
}

}  // namespace tandem::operator_rows
