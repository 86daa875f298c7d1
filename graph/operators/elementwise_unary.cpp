// Functions of one operand, with gradients in terms of x or y (whichever is cheaper to keep).
#include "graph/operators/fold.h"

namespace tandem::operator_rows {

namespace {
constexpr double two_over_sqrt_pi = 1.1283791670955126;
}

// y = |x|; dx = dy · sign(x)
Operator abs() {
  return {.name = "Abs",
          .since = {1, 6, 13}, .types = {{"T", types::numbers}},
          .infer = infer_same,
          .differentiate = [](GradientContext& g) { g.set_dx(g.mul(g.dy(), g.emit("Sign", {g.x()}))); },
          .fold = fold_unary<[](auto x) { return x < 0 ? -wrapping(x) : wrapping(x); }>,
          .elementwise = true};
}

// dx = −dy / √(1 − x²)
Operator acos() {
  return {.name = "Acos",
          .since = {7, 22},
          .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate =
              [](GradientContext& g) {
                g.set_dx(g.neg(g.div(g.dy(), g.emit("Sqrt", {g.sub(g.scalar(1, g.type(g.x()).dtype), g.mul(g.x(), g.x()))}))));
              },
          .fold = fold_unary<[](auto x) { return std::acos(x); }>,
          .elementwise = true,
          .precision = PrecisionRole::wide};
}

// dx = dy / √(x² − 1)
Operator acosh() {
  return {.name = "Acosh",
          .since = {9, 22}, .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate = [](GradientContext& g) { g.set_dx(g.div(g.dy(), g.emit("Sqrt", {g.add(g.mul(g.x(), g.x()), -1.0)}))); },
          .fold = fold_unary<[](auto x) { return std::acosh(x); }>,
          .elementwise = true,
          .precision = PrecisionRole::wide};
}

// dx = dy / √(1 − x²)
Operator asin() {
  return {.name = "Asin",
          .since = {7, 22},
          .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate =
              [](GradientContext& g) {
                g.set_dx(g.div(g.dy(), g.emit("Sqrt", {g.sub(g.scalar(1, g.type(g.x()).dtype), g.mul(g.x(), g.x()))})));
              },
          .fold = fold_unary<[](auto x) { return std::asin(x); }>,
          .elementwise = true,
          .precision = PrecisionRole::wide};
}

// dx = dy / √(x² + 1)
Operator asinh() {
  return {.name = "Asinh",
          .since = {9, 22}, .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate = [](GradientContext& g) { g.set_dx(g.div(g.dy(), g.emit("Sqrt", {g.add(g.mul(g.x(), g.x()), 1.0)}))); },
          .fold = fold_unary<[](auto x) { return std::asinh(x); }>,
          .elementwise = true,
          .precision = PrecisionRole::wide};
}

// dx = dy / (1 + x²)
Operator atan() {
  return {.name = "Atan",
          .since = {7, 22}, .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate = [](GradientContext& g) { g.set_dx(g.div(g.dy(), g.add(g.mul(g.x(), g.x()), 1.0))); },
          .fold = fold_unary<[](auto x) { return std::atan(x); }>,
          .elementwise = true};
}

// dx = dy / (1 − x²)
Operator atanh() {
  return {
      .name = "Atanh",
      .since = {9, 22},
      .types = {{"T", types::floats}},
      .infer = infer_same,
      .differentiate = [](GradientContext& g) { g.set_dx(g.div(g.dy(), g.sub(g.scalar(1, g.type(g.x()).dtype), g.mul(g.x(), g.x())))); },
      .fold = fold_unary<[](auto x) { return std::atanh(x); }>,
      .elementwise = true,
      .precision = PrecisionRole::wide};
}

Operator ceil() {
  return {.name = "Ceil",
          .since = {1, 6, 13},
          .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate = zero_gradient,
          .fold = fold_unary<[](auto x) { return std::ceil(x); }>,
          .elementwise = true};
}

// dx = -dy · sin(x)
Operator cos() {
  return {.name = "Cos",
          .since = {7, 22}, .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate = [](GradientContext& g) { g.set_dx(g.neg(g.mul(g.dy(), g.emit("Sin", {g.x()})))); },
          .fold = fold_unary<[](auto x) { return std::cos(x); }>,
          .elementwise = true};
}

// dx = dy · sinh(x)
Operator cosh() {
  return {.name = "Cosh",
          .since = {9, 22}, .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate = [](GradientContext& g) { g.set_dx(g.mul(g.dy(), g.emit("Sinh", {g.x()}))); },
          .fold = fold_unary<[](auto x) { return std::cosh(x); }>,
          .elementwise = true,
          .precision = PrecisionRole::wide};
}

// y = x ≥ 0 ? x : α(eˣ − 1); dx = dy · (x > 0 ? 1 : y + α)
Operator elu() {
  return {.name = "Elu",
          .since = {1, 6, 22},
          .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate =
              [](GradientContext& g) {
                g.set_dx(g.emit("EluBackward", {g.dy(), g.y()}, {{"alpha", g.attributes().real("alpha", 1.0F)}}));
              },
          .elementwise = true,
          .parameters = {{"alpha", 1.0F}},
          .rectifies = true};
}

// dx = dy · 2/√π · exp(−x²)
Operator erf() {
  return {.name = "Erf",
          .since = {9, 13}, .types = {{"T", types::numbers}},
          .infer = infer_same,
          .differentiate =
              [](GradientContext& g) {
                const ValueId bell = g.emit("Exp", {g.neg(g.mul(g.x(), g.x()))});
                g.set_dx(g.mul(g.dy(), g.mul(bell, two_over_sqrt_pi)));
              },
          .elementwise = true};
}

// 1 − erf(x). None of ONNX's: TensorFlow's, as tf2onnx leaves it
Operator erfc() {
  return {
      .name = "Erfc",
      .since = {1},
      .types = {{"T", types::floats}},
      .infer = infer_same,
      .follow = follow_broadcast,
      .expand = [](ExpandContext& e) -> std::vector<ValueId> { return {e.sub(e.scalar(1, e.type(e.x()).dtype), e.emit("Erf", {e.x()}))}; },
      .precision = PrecisionRole::parts,
      .operands = {{"x"}}};
}

// dx = dy · y
Operator exp() {
  return {.name = "Exp",
          .since = {1, 6, 13}, .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate = [](GradientContext& g) { g.set_dx(g.mul(g.dy(), g.y())); },
          .fold = fold_unary<[](auto x) { return std::exp(x); }>,
          .elementwise = true,
          .precision = PrecisionRole::wide};
}

Operator floor() {
  return {.name = "Floor",
          .since = {1, 6, 13},
          .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate = zero_gradient,
          .fold = fold_unary<[](auto x) { return std::floor(x); }>,
          .elementwise = true};
}

// y = clamp(αx + β, 0, 1); dx = dy · α inside
Operator hard_sigmoid() {
  return {.name = "HardSigmoid",
          .since = {1, 6, 22}, .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate =
              [](GradientContext& g) {
                g.set_dx(g.emit("HardSigmoidBackward", {g.dy(), g.x()},
                                {{"alpha", g.attributes().real("alpha", 0.2F)}, {"beta", g.attributes().real("beta", 0.5F)}}));
              },
          .elementwise = true,
          .parameters = {{"alpha", 0.2F}, {"beta", 0.5F}}};
}

// y = x ≥ 0 ? x : αx; dx = dy · (x > 0 ? 1 : α)
Operator leaky_relu() {
  return {.name = "LeakyRelu",
          .since = {1, 6, 16},
          .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate =
              [](GradientContext& g) {
                g.set_dx(g.emit("LeakyReluBackward", {g.dy(), g.x()}, {{"alpha", g.attributes().real("alpha", 0.01F)}}));
              },
          .elementwise = true,
          .parameters = {{"alpha", 0.01F}},
          .rectifies = true};
}

// dx = dy / x
Operator log() {
  return {.name = "Log",
          .since = {1, 6, 13}, .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate = [](GradientContext& g) { g.set_dx(g.div(g.dy(), g.x())); },
          .fold = fold_unary<[](auto x) { return std::log(x); }>,
          .elementwise = true,
          .precision = PrecisionRole::wide};
}

Operator neg() {
  return {.name = "Neg",
          .since = {1, 6, 13}, .types = {{"T", types::signed_numbers}},
          .infer = infer_same,
          .linear = Linear::sum,
          .differentiate = [](GradientContext& g) { g.set_dx(g.neg(g.dy())); },
          .fold = fold_unary<[](auto x) { return -wrapping(x); }>,
          .elementwise = true};
}

// dx = −dy · y²
Operator reciprocal() {
  return {.name = "Reciprocal",
          .since = {1, 6, 13}, .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate = [](GradientContext& g) { g.set_dx(g.neg(g.mul(g.dy(), g.mul(g.y(), g.y())))); },
          .fold = fold_unary<[](auto x) { return x == 0 && std::is_integral_v<decltype(x)> ? decltype(x){0} : decltype(x){1} / x; }>,
          .elementwise = true,
          .precision = PrecisionRole::wide};
}

// y = max(x, 0); dx = y ≤ 0 ? 0 : dy
Operator relu() {
  return {.name = "Relu",
          .since = {1, 6, 13, 14}, .types = {{"T", types::signed_numbers}},
          .infer = infer_same,
          .differentiate = [](GradientContext& g) { g.set_dx(g.emit("ReluBackward", {g.dy(), g.y()})); },
          .fold = fold_unary<[](auto x) { return x < 0 ? 0 : x; }>,
          .elementwise = true,
          .rectifies = true};
}

// Halves go to the even neighbour.
Operator round() {
  return {.name = "Round",
          .since = {11, 22},
          .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate = zero_gradient,
          .fold = fold_unary<[](auto x) { return std::nearbyint(x); }>,
          .elementwise = true};
}

// dx = dy · y · (1 − y)
Operator sigmoid() {
  return {.name = "Sigmoid",
          .since = {1, 6, 13}, .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate = [](GradientContext& g) { g.set_dx(g.emit("SigmoidBackward", {g.dy(), g.y()})); },
          .elementwise = true,
          .gives = OutputKind::sigmoid};
}

Operator sign() {
  return {.name = "Sign",
          .since = {9, 13},
          .types = {{"T", types::numbers}},
          .infer = infer_same,
          .differentiate = zero_gradient,
          .fold = fold_unary<[](auto x) { return x != x ? x : static_cast<decltype(x)>((0 < x) - (x < 0)); }>,
          .elementwise = true};
}

// dx = dy · cos(x)
Operator sin() {
  return {.name = "Sin",
          .since = {7, 22}, .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate = [](GradientContext& g) { g.set_dx(g.mul(g.dy(), g.emit("Cos", {g.x()}))); },
          .fold = fold_unary<[](auto x) { return std::sin(x); }>,
          .elementwise = true};
}

// dx = dy · cosh(x)
Operator sinh() {
  return {.name = "Sinh",
          .since = {9, 22}, .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate = [](GradientContext& g) { g.set_dx(g.mul(g.dy(), g.emit("Cosh", {g.x()}))); },
          .fold = fold_unary<[](auto x) { return std::sinh(x); }>,
          .elementwise = true,
          .precision = PrecisionRole::wide};
}

// y = log(1 + eˣ); dx = dy · sigmoid(x)
Operator softplus() {
  return {.name = "Softplus",
          .since = {1, 22}, .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate = [](GradientContext& g) { g.set_dx(g.mul(g.dy(), g.emit("Sigmoid", {g.x()}))); },
          .elementwise = true,
          .precision = PrecisionRole::wide};
}

// dx = dy / 2y
Operator sqrt() {
  return {.name = "Sqrt",
          .since = {1, 6, 13}, .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate = [](GradientContext& g) { g.set_dx(g.div(g.mul(g.dy(), 0.5), g.y())); },
          .fold = fold_unary<[](auto x) { return std::sqrt(x); }>,
          .elementwise = true,
          .precision = PrecisionRole::wide,
          .operands = {{"X", OperandRole::radicand}}};
}

// dx = dy · (1 + y²)
Operator tan() {
  return {.name = "Tan",
          .since = {7, 22}, .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate = [](GradientContext& g) { g.set_dx(g.mul(g.dy(), g.add(g.mul(g.y(), g.y()), 1.0))); },
          .fold = fold_unary<[](auto x) { return std::tan(x); }>,
          .elementwise = true,
          .precision = PrecisionRole::wide};
}

// dx = dy · (1 − y²)
Operator tanh() {
  return {.name = "Tanh",
          .since = {1, 6, 13}, .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate = [](GradientContext& g) { g.set_dx(g.emit("TanhBackward", {g.dy(), g.y()})); },
          .elementwise = true};
}

}  // namespace tandem::operator_rows
