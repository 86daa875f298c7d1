// From one element type to another. Gradients are cast back; nothing flows through integers.
#include "graph/operators/fold.h"

namespace tandem::operator_rows {
namespace {

DType foldable(DType t) { return t == DType::float16 || t == DType::bfloat16 ? DType::undefined : t; }

Folded fold_cast(const FoldContext& c) {
  const DType from = foldable(c.inputs[0].dtype()), to = foldable(c.outputs[0].dtype);
  if (size_of(from) == 0 || size_of(to) == 0) return std::nullopt;
  if (is_float(from) && !is_float(to))
    for (const double v : c.inputs[0].to_doubles())
      if (!(v > -9.2e18 && v < 9.2e18)) return std::nullopt;  // C++ does not say what the cast would give
  return std::vector{c.inputs[0].cast(to)};
}

// Between floats the gradient is cast back; nothing flows through integers.
void differentiate_cast(GradientContext& g) {
  const DType x = g.type(g.x()).dtype;
  if (is_float(x) && is_float(g.type(g.dy()).dtype)) g.set_dx(cast(g, g.dy(), x));
}

}  // namespace

Operator cast_operator() {
  return {.name = "Cast",
          .since = {1, 6, 9, 13, 19, 21, 23, 24, 25, 28}, .types = {{"T1", types::all}},
          .infer =
              [](InferContext& c) {
                const DType to = static_cast<DType>(c.attributes().integer("to"));
                if (size_of(to) == 0) c.fail("to is ", c.attributes().integer("to"), ", a type that is not supported");
                c.set_output(0, to, c.shape(0));
              },
          .follow = follow_broadcast,
          .linear = Linear::sum,
          .differentiate = differentiate_cast,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            if (e.attributes().integer("to") == static_cast<std::int64_t>(e.type(e.x()).dtype)) return {e.x()};
            return {};
          },
          .fold = fold_cast,
          .type_attribute = "to", .precision = PrecisionRole::wide,
          .operands = {{"input", OperandRole::view}}};
}

Operator cast_like() {
  return {.name = "CastLike",
          .since = {15, 19, 21, 23, 24, 25}, .inputs = {2, 2}, .types = {{"T1", types::all}, {"T2", types::all}},
          .infer = [](InferContext& c) { c.set_output(0, c.input(1).dtype, c.shape(0)); },
          .follow = [](FollowContext& c) { c.set(0, c.place()); },
          .expand = [](ExpandContext& e) -> std::vector<ValueId> { return {cast(e, e.x(0), e.type(e.x(1)).dtype)}; },
          .fold = fold_cast,
          .precision = PrecisionRole::parts,
          .operands = {{"input", OperandRole::view}, {"target_type", OperandRole::index}}};
}

}  // namespace tandem::operator_rows
