// Comparisons, logic and Where: booleans, through which nothing is differentiated but Where's chosen values.
#include <limits>

#include "graph/operators/fold.h"

namespace tandem::operator_rows {
namespace {

void infer_logic(InferContext& c) {
  for (int i = 0; i < c.inputs(); ++i) expect_dtype(c, i, DType::boolean);
  infer_broadcast(c);
}

template <auto f>
Folded fold_logic(const FoldContext& c) {
  const Shape& shape = c.outputs[0].shape;
  const Tensor &a = c.inputs[0], &b = c.inputs[c.inputs.size() - 1];
  const auto ia = broadcast_index(a.shape(), shape), ib = broadcast_index(b.shape(), shape);
  Tensor out(c.outputs[0]);
  const auto y = out.write<bool>();
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = f(a.values<bool>()[ia[i]], b.values<bool>()[ib[i]]);
  return std::vector{out};
}

}  // namespace

Operator equal() {
  return {.name = "Equal",
          .since = {1, 7, 11, 13, 19},
          .inputs = {2, 2},
          .types = {{"T", types::all}},
          .infer = infer_comparison,
          .follow = follow_broadcast,
          .fold =
              [](const FoldContext& c) {
                return c.inputs[0].dtype() == DType::boolean ? fold_logic<[](bool a, bool b) { return a == b; }>(c)
                                                             : fold_binary<[](auto a, auto b) { return a == b; }>(c);
              },
          .precision = PrecisionRole::wide,
          .operands = {{"A"}, {"B"}}};
}
Operator greater() {
  return {.name = "Greater",
          .since = {1, 7, 9, 13},
          .inputs = {2, 2},
          .types = {{"T", types::numbers}},
          .infer = infer_comparison,
          .follow = follow_broadcast,
          .fold = fold_binary<[](auto a, auto b) { return b < a; }>,
          .precision = PrecisionRole::wide,
          .operands = {{"A"}, {"B"}}};
}
Operator greater_or_equal() {
  return {.name = "GreaterOrEqual",
          .since = {12, 16},
          .inputs = {2, 2},
          .types = {{"T", types::numbers}},
          .infer = infer_comparison,
          .follow = follow_broadcast,
          .fold = fold_binary<[](auto a, auto b) { return b <= a; }>,
          .precision = PrecisionRole::wide,
          .operands = {{"A"}, {"B"}}};
}
Operator less() {
  return {.name = "Less",
          .since = {1, 7, 9, 13},
          .inputs = {2, 2},
          .types = {{"T", types::numbers}},
          .infer = infer_comparison,
          .follow = follow_broadcast,
          .fold = fold_binary<[](auto a, auto b) { return a < b; }>,
          .precision = PrecisionRole::wide,
          .operands = {{"A"}, {"B"}}};
}
Operator less_or_equal() {
  return {.name = "LessOrEqual",
          .since = {12, 16},
          .inputs = {2, 2},
          .types = {{"T", types::numbers}},
          .infer = infer_comparison,
          .follow = follow_broadcast,
          .fold = fold_binary<[](auto a, auto b) { return a <= b; }>,
          .precision = PrecisionRole::wide,
          .operands = {{"A"}, {"B"}}};
}

// |x| = ∞, or of one sign alone
Operator is_inf() {
  return {.name = "IsInf",
          .since = {10, 20}, .types = {{"T1", types::floats}},
          .infer = [](InferContext& c) { c.set_output(0, DType::boolean, c.shape(0)); },
          .follow = follow_broadcast,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            constexpr double infinity = std::numeric_limits<double>::infinity();
            const bool negative = e.attributes().integer("detect_negative", 1) != 0,
                       positive = e.attributes().integer("detect_positive", 1) != 0;
            const DType dtype = e.type(e.x()).dtype;
            if (negative != positive) return {e.emit("Equal", {e.x(), e.scalar(positive ? infinity : -infinity, dtype)})};
            const ValueId size = e.emit("Abs", {e.x()});
            return {e.emit(positive ? "Equal" : "Less", {size, e.scalar(positive ? infinity : 0, dtype)})};
          },
          .precision = PrecisionRole::parts, .operands = {{"X"}}};
}

// What is no number; all else is one.
Operator is_nan() {
  return {.name = "IsNaN",
          .since = {9, 13, 20}, .types = {{"T1", types::floats}},
          .infer = [](InferContext& c) { c.set_output(0, DType::boolean, c.shape(0)); },
          .follow = follow_broadcast,
          .fold = [](const FoldContext& c) -> Folded {
            return visit_foldable(c.inputs[0].dtype(), [&]<class T>() -> Folded {
              Tensor out(c.outputs[0]);
              const auto x = c.inputs[0].values<T>();
              const auto y = out.write<bool>();
              for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[i] != x[i];
              return std::vector{out};
            });
          },
          .precision = PrecisionRole::wide, .operands = {{"X"}}};
}

Operator logical_and() {
  return {.name = "And",
          .since = {1, 7},
          .inputs = {2, 2},
          .types = {{"T", types::booleans}},
          .infer = infer_logic,
          .follow = follow_broadcast,
          .fold = fold_logic<[](bool a, bool b) { return a && b; }>,
          .precision = PrecisionRole::wide};
}
Operator logical_not() {
  return {.name = "Not",
          .since = {1},
          .types = {{"T", types::booleans}},
          .infer = infer_logic,
          .follow = follow_broadcast,
          .fold = fold_logic<[](bool a, bool) { return !a; }>,
          .precision = PrecisionRole::wide};
}
Operator logical_or() {
  return {.name = "Or",
          .since = {1, 7},
          .inputs = {2, 2},
          .types = {{"T", types::booleans}},
          .infer = infer_logic,
          .follow = follow_broadcast,
          .fold = fold_logic<[](bool a, bool b) { return a || b; }>,
          .precision = PrecisionRole::wide};
}
Operator logical_xor() {
  return {.name = "Xor",
          .since = {1, 7},
          .inputs = {2, 2},
          .types = {{"T", types::booleans}},
          .infer = infer_logic,
          .follow = follow_broadcast,
          .fold = fold_logic<[](bool a, bool b) { return a != b; }>,
          .precision = PrecisionRole::wide};
}

// y = c ? a : b, all three broadcast; da = c ? dy : 0, db = c ? 0 : dy
Operator where() {
  return {.name = "Where",
          .since = {9, 16}, .inputs = {3, 3}, .types = {{"B", types::booleans}, {"T", types::all}},
          .infer =
              [](InferContext& c) {
                expect_dtype(c, 0, DType::boolean);
                expect_dtype(c, 2, c.input(1).dtype);
                c.set_output(0, c.input(1).dtype, broadcast_inputs(c, 0, 3));
              },
          .follow = follow_broadcast,
          .differentiate =
              [](GradientContext& g) {
                const ValueId zero = g.scalar(0, g.type(g.dy()).dtype);
                if (g.wants(1)) g.set_dx(1, g.sum_to(g.emit("Where", {g.x(0), g.dy(), zero}), g.shape(g.x(1))));
                if (g.wants(2)) g.set_dx(2, g.sum_to(g.emit("Where", {g.x(0), zero, g.dy()}), g.shape(g.x(2))));
              },
          .fold = [](const FoldContext& c) -> Folded {
            return visit_foldable(c.outputs[0].dtype, [&]<class T>() -> Folded {
              std::vector<std::size_t> index[3];
              for (std::size_t i = 0; i < 3; ++i) index[i] = broadcast_index(c.inputs[i].shape(), c.outputs[0].shape);
              Tensor out(c.outputs[0]);
              const auto y = out.write<T>();
              const auto condition = c.inputs[0].values<bool>();
              const auto a = c.inputs[1].values<T>(), b = c.inputs[2].values<T>();
              for (std::size_t i = 0; i < y.size(); ++i) y[i] = condition[index[0][i]] ? a[index[1][i]] : b[index[2][i]];
              return std::vector{out};
            });
          },
          .precision = PrecisionRole::wide,
          .operands = {{"condition", OperandRole::index}, {"X"}, {"Y"}}};
}

}  // namespace tandem::operator_rows
