// Activations that are compositions of others, in one step where it pays.
#include "graph/operators/rules.h"

namespace tandem::operator_rows {

// y = α · elu(x/α)  (= max(0, x) + min(0, α(e^(x/α) − 1)))
Operator celu() {
  return {.name = "Celu",
          .since = {12, 28}, .types = {{"T", types::floats}},
          .infer = infer_same,
          .follow = follow_broadcast,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const double alpha = e.attributes().real("alpha", 1.0F);
            if (alpha == 1) return {e.emit("Elu", {e.x()})};
            return {e.mul(e.emit("Elu", {e.mul(e.x(), 1 / alpha)}), alpha)};
          },
          .precision = PrecisionRole::parts, .rectifies = true, .operands = {{"X"}}};
}

// y = x/2 · (1 + erf(x/√2)), or with approximate = tanh: x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))
Operator gelu() {
  return {.name = "Gelu",
          .since = {20}, .types = {{"T", types::floats}},
          .infer =
              [](InferContext& c) {
                const std::string approximate = c.attributes().text("approximate", "none");
                if (approximate != "none" && approximate != "tanh") c.fail("approximate is '", approximate, "', expected none or tanh");
                infer_same(c);
              },
          .follow = follow_broadcast,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            return {e.emit(e.attributes().text("approximate", "none") == "tanh" ? "GeluTanh" : "GeluErf", {e.x()})};
          },
          .precision = PrecisionRole::parts, .rectifies = true, .operands = {{"X"}}};
}

// Gelu's two forms, for one pass over memory each way
Operator gelu_erf() {
  return {.name = "GeluErf",
          .domain = "tandem",
          .since = {1},
          .infer = infer_same,
          .differentiate = [](GradientContext& g) { g.set_dx(g.emit("GeluErfBackward", {g.dy(), g.x()})); },
          .elementwise = true,
          .precision = PrecisionRole::follows};
}
Operator gelu_tanh() {
  return {.name = "GeluTanh",
          .domain = "tandem",
          .since = {1},
          .infer = infer_same,
          .differentiate = [](GradientContext& g) { g.set_dx(g.emit("GeluTanhBackward", {g.dy(), g.x()})); },
          .elementwise = true,
          .precision = PrecisionRole::follows};
}

// y = x · hard_sigmoid(x; 1/6, 1/2)
Operator hard_swish() {
  return {.name = "HardSwish",
          .since = {14, 22}, .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate = [](GradientContext& g) { g.set_dx(g.emit("HardSwishBackward", {g.dy(), g.x()})); },
          .elementwise = true,
          .rectifies = true,
          .operands = {{"X"}}};
}

// y = x · tanh(softplus(x))
Operator mish() {
  return {.name = "Mish",
          .since = {18, 22},
          .types = {{"T", types::floats}},
          .infer = infer_same,
          .follow = follow_broadcast,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> { return {e.mul(e.x(), e.emit("Tanh", {e.emit("Softplus", {e.x()})}))}; },
          .precision = PrecisionRole::parts,
          .rectifies = true,
          .operands = {{"X"}}};
}

// y = x > 0 ? x : slope · x, the slope broadcasts to x; dx = dy · (x > 0 ? 1 : slope), dslope = Σ dy · min(x, 0). Integers are composed.
Operator prelu() {
  return {.name = "PRelu",
          .since = {1, 6, 7, 9, 16}, .inputs = {2, 2}, .types = {{"T", types::wide_numbers}},
          .infer =
              [](InferContext& c) {
                expect_dtype(c, 1, c.input(0).dtype);
                if (broadcast_inputs(c, 0, 2) != c.shape(0)) c.fail("slope ", c.shape(1), " does not broadcast to x ", c.shape(0));
                infer_same(c);
              },
          .differentiate =
              [](GradientContext& g) {
                if (g.wants(0)) g.set_dx(0, g.mul(g.dy(), g.emit("PReluSlope", {g.x(0), g.x(1)})));
                if (g.wants(1))
                  g.set_dx(1, g.sum_to(g.mul(g.dy(), g.emit("Min", {g.x(0), g.scalar(0, g.type(g.x(0)).dtype)})), g.shape(g.x(1))));
              },
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            if (is_float(e.type(e.x(0)).dtype)) return {};
            const ValueId negative = e.emit("Relu", {e.neg(e.x(0))});
            return {e.sub(e.emit("Relu", {e.x(0)}), e.mul(e.x(1), negative))};
          },
          .elementwise = true,
          .rectifies = true,
          .operands = {{"X"}, {"slope", OperandRole::slope}}};
}

// y = x > 0 ? 1 : slope
Operator prelu_slope() {
  return {.name = "PReluSlope", .domain = "tandem", .since = {1}, .inputs = {2, 2}, .infer = infer_broadcast, .elementwise = true};
}

// y = γ · elu(x; α)
Operator selu() {
  return {.name = "Selu",
          .since = {1, 6, 22},
          .types = {{"T", types::floats}},
          .infer = infer_same,
          .follow = follow_broadcast,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const float alpha = e.attributes().real("alpha", 1.67326319217681884765625F);
            const double gamma = e.attributes().real("gamma", 1.05070102214813232421875F);
            return {e.mul(e.emit("Elu", {e.x()}, {{"alpha", alpha}}), gamma)};
          },
          .precision = PrecisionRole::parts,
          .rectifies = true,
          .operands = {{"X"}}};
}

// y = x < −λ ? x + bias : x > λ ? x − bias : 0; integers by way of float32
Operator shrink() {
  return {.name = "Shrink",
          .since = {9},
          .types = {{"T", types::numbers}},
          .infer = infer_same,
          .follow = follow_broadcast,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const DType dtype = e.type(e.x()).dtype, real = is_float(dtype) ? dtype : DType::float32;
            const double bias = e.attributes().real("bias", 0.0F), lambda = e.attributes().real("lambd", 0.5F);
            const ValueId x = real == dtype ? e.x() : cast(e, e.x(), real);
            const ValueId above = e.emit("Where", {e.emit("Greater", {x, e.scalar(lambda, real)}), e.add(x, -bias), e.scalar(0, real)});
            const ValueId y = e.emit("Where", {e.emit("Less", {x, e.scalar(-lambda, real)}), e.add(x, bias), above});
            return {real == dtype ? y : cast(e, y, dtype)};
          },
          .precision = PrecisionRole::parts,
          .operands = {{"input"}}};
}

// y = x / (1 + |x|)
Operator softsign() {
  return {.name = "Softsign",
          .since = {1, 22},
          .types = {{"T", types::floats}},
          .infer = infer_same,
          .follow = follow_broadcast,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> { return {e.div(e.x(), e.add(e.emit("Abs", {e.x()}), 1.0))}; },
          .precision = PrecisionRole::parts,
          .operands = {{"input"}}};
}

// y = swish(A; α) · B
Operator swiglu() {
  return {.name = "SwiGLU",
          .since = {28},
          .inputs = {2, 2},
          .types = {{"T", types::floats}},
          .infer =
              [](InferContext& c) {
                expect_shape(c, 1, c.shape(0));
                infer_same(c);
              },
          .follow = follow_broadcast,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            return {e.mul(e.emit("Swish", {e.x(0)}, {{"alpha", e.attributes().real("alpha", 1.0F)}}), e.x(1))};
          },
          .precision = PrecisionRole::parts,
          .operands = {{"A"}, {"B"}}};
}

// y = x · sigmoid(αx)
Operator swish() {
  return {.name = "Swish",
          .since = {24},
          .types = {{"T", types::floats}},
          .infer = infer_same,
          .differentiate =
              [](GradientContext& g) {
                g.set_dx(g.emit("SwishBackward", {g.dy(), g.x()}, {{"alpha", g.attributes().real("alpha", 1.0F)}}));
              },
          .elementwise = true,
          .parameters = {{"alpha", 1.0F}},
          .operands = {{"X"}}};
}

// y = x > α ? x : 0
Operator thresholded_relu() {
  return {.name = "ThresholdedRelu",
          .since = {10, 22},
          .types = {{"T", types::floats}},
          .infer = infer_same,
          .follow = follow_broadcast,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const DType dtype = e.type(e.x()).dtype;
            const ValueId above = e.emit("Greater", {e.x(), e.scalar(e.attributes().real("alpha", 1.0F), dtype)});
            return {e.emit("Where", {above, e.x(), e.scalar(0, dtype)})};
          },
          .precision = PrecisionRole::parts,
          .rectifies = true,
          .operands = {{"X"}}};
}

}  // namespace tandem::operator_rows
