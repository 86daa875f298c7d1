// Gradients of activations as functions of dy and of what the forward pass keeps (x or y). Elementwise, so that the
// planner fuses them; not differentiable again.
#include <limits>

#include "graph/operators/rules.h"

namespace tandem::operator_rows {

// dx = min < y < max ? dy : 0
Operator clip_backward() {
  constexpr float inf = std::numeric_limits<float>::infinity();
  return {.name = "ClipBackward",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .infer = infer_broadcast,
          .linear = Linear::first,
          .elementwise = true,
          .parameters = {{"min", -inf}, {"max", inf}}};
}

// dx = y > 0 ? dy : dy · (y + α)
Operator elu_backward() {
  return {.name = "EluBackward",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .infer = infer_broadcast,
          .linear = Linear::first,
          .elementwise = true,
          .parameters = {{"alpha", 1.0F}}};
}

// With Φ the normal distribution, y = x·Φ(x): dx = dy · (Φ(x) + x · e^(−x²/2)/√(2π))
Operator gelu_erf_backward() {
  return {.name = "GeluErfBackward",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .infer = infer_broadcast,
          .linear = Linear::first,
          .elementwise = true};
}

// With t = tanh(√(2/π) (x + 0.044715 x³)): dx = dy · ½ (1 + t + x · (1 − t²) · √(2/π) (1 + 3 · 0.044715 x²))
Operator gelu_tanh_backward() {
  return {.name = "GeluTanhBackward",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .infer = infer_broadcast,
          .linear = Linear::first,
          .elementwise = true};
}

// dx = 0 < αx + β < 1 ? dy · α : 0
Operator hard_sigmoid_backward() {
  return {.name = "HardSigmoidBackward",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .infer = infer_broadcast,
          .linear = Linear::first,
          .elementwise = true,
          .parameters = {{"alpha", 0.2F}, {"beta", 0.5F}}};
}

// dx = x ≤ −3 ? 0 : x ≥ 3 ? dy : dy · (x/3 + ½)
Operator hard_swish_backward() {
  return {.name = "HardSwishBackward",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .infer = infer_broadcast,
          .linear = Linear::first,
          .elementwise = true};
}

// dx = x > 0 ? dy : α · dy
Operator leaky_relu_backward() {
  return {.name = "LeakyReluBackward",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .infer = infer_broadcast,
          .linear = Linear::first,
          .elementwise = true,
          .parameters = {{"alpha", 0.01F}}};
}

// dx = y > 0 ? dy : 0
Operator relu_backward() {
  return {.name = "ReluBackward",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .infer = infer_broadcast,
          .linear = Linear::first,
          .elementwise = true};
}

// dx = dy · y · (1 − y)
Operator sigmoid_backward() {
  return {.name = "SigmoidBackward",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .infer = infer_broadcast,
          .linear = Linear::first,
          .elementwise = true};
}

// With s = sigmoid(αx): dx = dy · s · (1 + αx · (1 − s))
Operator swish_backward() {
  return {.name = "SwishBackward",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .infer = infer_broadcast,
          .linear = Linear::first,
          .elementwise = true,
          .parameters = {{"alpha", 1.0F}}};
}

// dx = dy · (1 − y²)
Operator tanh_backward() {
  return {.name = "TanhBackward",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .infer = infer_broadcast,
          .linear = Linear::first,
          .elementwise = true};
}

}  // namespace tandem::operator_rows
