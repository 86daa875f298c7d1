// Functions of two operands of one dtype that broadcast as numpy's. A gradient is summed back to its operand's shape.
#include <algorithm>

#include "graph/operators/fold.h"

namespace tandem::operator_rows {
namespace {

void set_summed(GradientContext& g, int i, ValueId dx) { g.set_dx(i, g.sum_to(dx, g.shape(g.x(i)))); }

// y = max(a, b): da = dy · (1 + sign(a − b)) / 2, so that equal operands share the gradient; min: with −sign.
void differentiate_extremum(GradientContext& g, double direction) {
  const ValueId side = g.emit("Sign", {g.sub(g.x(0), g.x(1))});
  const ValueId half = g.mul(g.dy(), 0.5);
  const ValueId signed_half = g.mul(half, g.mul(side, direction));
  if (g.wants(0)) set_summed(g, 0, g.add(half, signed_half));
  if (g.wants(1)) set_summed(g, 1, g.sub(half, signed_half));
}

// Max, Min and Sum take any number of operands: chained pairs.
std::vector<ValueId> chain(ExpandContext& e, std::string_view op) {
  ValueId y = e.x(0);
  for (int i = 1; i < static_cast<int>(e.node().inputs.size()); ++i) y = e.emit(op, {y, e.x(i)});
  return {y};
}

std::vector<ValueId> chain_unless_pair(ExpandContext& e, std::string_view op) {
  if (e.node().inputs.size() == 2) return {};
  return chain(e, op);
}

bool may_be_zero(const Value& v) {
  if (v.kind != ValueKind::constant || !v.data) return true;
  const std::vector<double> values = v.data->to_doubles();
  return std::find(values.begin(), values.end(), 0.0) != values.end();
}

}  // namespace

Operator add() {
  return {.name = "Add",
          .since = {1, 6, 7, 13, 14}, .inputs = {2, 2}, .types = {{"T", types::numbers}},
          .infer = infer_broadcast,
          .linear = Linear::sum,
          .differentiate =
              [](GradientContext& g) {
                for (int i = 0; i < 2; ++i)
                  if (g.wants(i)) set_summed(g, i, g.dy());
              },
          .fold = fold_binary<[](auto a, auto b) { return wrapping(a) + wrapping(b); }>,
          .elementwise = true,
          .operands = {{"A", OperandRole::addend}, {"B", OperandRole::addend}}};
}

Operator sub() {
  return {.name = "Sub",
          .since = {1, 6, 7, 13, 14}, .inputs = {2, 2}, .types = {{"T", types::numbers}},
          .infer = infer_broadcast,
          .linear = Linear::sum,
          .differentiate =
              [](GradientContext& g) {
                if (g.wants(0)) set_summed(g, 0, g.dy());
                if (g.wants(1)) g.set_dx(1, g.neg(g.sum_to(g.dy(), g.shape(g.x(1)))));
              },
          .fold = fold_binary<[](auto a, auto b) { return wrapping(a) - wrapping(b); }>,
          .elementwise = true,
          .operands = {{"A", OperandRole::addend}, {"B", OperandRole::addend}}};
}

Operator mul() {
  return {.name = "Mul",
          .since = {1, 6, 7, 13, 14}, .inputs = {2, 2}, .types = {{"T", types::numbers}},
          .infer = infer_broadcast,
          .linear = Linear::product,
          .differentiate =
              [](GradientContext& g) {
                for (int i = 0; i < 2; ++i)
                  if (g.wants(i)) set_summed(g, i, g.mul(g.dy(), g.x(1 - i)));
              },
          .fold = fold_binary<[](auto a, auto b) { return wrapping(a) * wrapping(b); }>,
          .elementwise = true,
          .operands = {{"A", OperandRole::factor}, {"B", OperandRole::factor}}};
}

// da = dy / b, db = −dy · y / b. Integers round towards zero; a division by zero folds to 0.
Operator div() {
  return {.name = "Div",
          .since = {1, 6, 7, 13, 14}, .inputs = {2, 2}, .types = {{"T", types::numbers}},
          .infer = infer_broadcast,
          .linear = Linear::first,
          .differentiate =
              [](GradientContext& g) {
                const ValueId da = g.div(g.dy(), g.x(1));
                if (g.wants(0)) set_summed(g, 0, da);
                if (g.wants(1)) set_summed(g, 1, g.neg(g.mul(da, g.y())));
              },
          .fold = fold_binary<[](auto a, auto b) {
            using T = decltype(a);
            if constexpr (std::is_integral_v<T>) {
              if (b == 0) return T{0};
              if (b == -1) return static_cast<T>(-wrapping(a));
            }
            return static_cast<T>(a / b);
          }>,
          .elementwise = true,
          .operands = {{"A", OperandRole::factor}, {"B", OperandRole::factor}}};
}

Operator max() {
  return {.name = "Max",
          .since = {1, 6, 8, 12, 13}, .inputs = {1, Arity::any}, .types = {{"T", types::numbers}},
          .infer = infer_broadcast,
          .differentiate = [](GradientContext& g) { differentiate_extremum(g, 1); },
          .expand = [](ExpandContext& e) { return chain_unless_pair(e, "Max"); },
          .fold = fold_binary<[](auto a, auto b) { return b < a || a != a ? a : b; }>,
          .elementwise = true};
}

Operator min() {
  return {.name = "Min",
          .since = {1, 6, 8, 12, 13}, .inputs = {1, Arity::any}, .types = {{"T", types::numbers}},
          .infer = infer_broadcast,
          .differentiate = [](GradientContext& g) { differentiate_extremum(g, -1); },
          .expand = [](ExpandContext& e) { return chain_unless_pair(e, "Min"); },
          .fold = fold_binary<[](auto a, auto b) { return a < b || a != a ? a : b; }>,
          .elementwise = true};
}

Operator mean() {
  return {.name = "Mean",
          .since = {1, 6, 8, 13}, .inputs = {1, Arity::any}, .types = {{"T", types::floats}},
          .infer = infer_broadcast,
          .follow = follow_broadcast,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const ValueId sum = chain(e, "Add")[0];
            const double n = static_cast<double>(e.node().inputs.size());
            return {n == 1 ? sum : e.div(sum, e.scalar(n, e.type(sum).dtype))};
          },
          .precision = PrecisionRole::parts, .operands = {{"data_0"}}};
}

Operator sum() {
  return {.name = "Sum",
          .since = {1, 6, 8, 13},
          .inputs = {1, Arity::any},
          .types = {{"T", types::floats}},
          .infer = infer_broadcast,
          .follow = follow_broadcast,
          .expand = [](ExpandContext& e) { return chain(e, "Add"); },
          .precision = PrecisionRole::parts,
          .operands = {{"data_0", OperandRole::addend}}};
}

// r = a − q·b with q = a/b rounded towards zero (fmod = 1: r has the dividend's sign) or down (fmod = 0: the divisor's);
// da = dr, db = −q · dr
Operator mod() {
  return {.name = "Mod",
          .since = {10, 13, 28}, .inputs = {2, 2}, .types = {{"T", types::numbers}},
          .infer = infer_broadcast,
          .follow = follow_broadcast,
          .differentiate =
              [](GradientContext& g) {
                if (g.wants(0)) set_summed(g, 0, g.dy());
                if (g.wants(1)) set_summed(g, 1, g.mul(g.dy(), g.div(g.sub(g.y(), g.x(0)), g.x(1))));
              },
          .fold = [](const FoldContext& c) -> Folded {
            if (c.node.attributes.integer("fmod", 0) != 0)
              return fold_binary<[](auto a, auto b) {
                using T = decltype(a);
                if constexpr (std::is_integral_v<T>)
                  return b == 0 || b == -1 ? T{0} : static_cast<T>(a % b);
                else
                  return std::fmod(a, b);
              }>(c);
            return fold_binary<[](auto a, auto b) {
              using T = decltype(a);
              if constexpr (std::is_integral_v<T>) {
                if (b == 0 || b == -1) return T{0};
                const T r = static_cast<T>(a % b);
                return static_cast<T>(r != 0 && (r < 0) != (b < 0) ? r + b : r);
              } else {
                return static_cast<T>(a - b * std::floor(a / b));
              }
            }>(c);
          },
          .precision = PrecisionRole::wide, .operands = {{"A"}, {"B"}}};
}

// y = xᵖ: dx = dy · p · xᵖ⁻¹, which is 0 where p = 0, dp = dy · y · log x, which is 0 where x = 0. An exponent of another dtype is cast;
// the result has x's dtype.
Operator pow() {
  return {.name = "Pow",
          .since = {1, 7, 12, 13, 15}, .inputs = {2, 2}, .types = {{"T", types::wide_numbers}, {"T1", types::numbers}},
          .infer = [](InferContext& c) { c.set_output(0, c.input(0).dtype, broadcast_inputs(c, 0, 2)); },
          .differentiate =
              [](GradientContext& g) {
                const ValueId x = g.x(0), p = g.x(1);
                const ValueId zero = g.scalar(0, g.type(x).dtype);
                if (g.wants(0)) {
                  ValueId slope = g.mul(p, g.emit("Pow", {x, g.add(p, -1.0)}));
                  if (may_be_zero(g.graph()[p])) slope = g.emit("Where", {g.emit("Equal", {p, zero}), zero, slope});
                  set_summed(g, 0, g.mul(g.dy(), slope));
                }
                if (!g.wants(1)) return;
                const ValueId logarithm = g.emit("Where", {g.emit("Equal", {x, zero}), zero, g.emit("Log", {x})});
                set_summed(g, 1, g.mul(g.dy(), g.mul(g.y(), logarithm)));
              },
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const DType x = e.type(e.x(0)).dtype, p = e.type(e.x(1)).dtype;
            if (x == p) return {};
            const DType common = is_float(p) && !is_float(x) ? p : x;
            return {cast(e, e.emit("Pow", {cast(e, e.x(0), common), cast(e, e.x(1), common)}), x)};
          },
          .fold = fold_binary<[](auto a, auto b) { return std::pow(a, b); }>,
          .elementwise = true,
          .precision = PrecisionRole::wide,
          .operands = {{"X"}, {"Y", OperandRole::exponent}}};
}

}  // namespace tandem::operator_rows
