// Gradients of activations as functions of dy and of what the forward pass keeps (x or y). Elementwise, so that the
// planner fuses them; not differentiable again.
#include <limits>

#include "graph/operators/rules.h"

namespace tandem::operator_rows {

// dx = min ≤ x ≤ max ? dy : 0
Operator clip_backward() {
  constexpr float inf = std::numeric_limits<float>::infinity();
  return {.name = "ClipBackward", .domain = "tandem", .since = {1}, .inputs = {2, 2}, .infer = infer_broadcast, .linear = Linear::first, .elementwise = true, .parameters = {{"min", -inf}, {"max", inf}}};
}

// dx = y > 0 ? dy : dy · (y + α)
Operator elu_backward() {
  return {.name = "EluBackward", .domain = "tandem", .since = {1}, .inputs = {2, 2}, .infer = infer_broadcast, .linear = Linear::first, .elementwise = true, .parameters = {{"alpha", 1.0F}}};
}

// dx = 0 < αx + β < 1 ? dy · α : 0
Operator hard_sigmoid_backward() {
  return {.name = "HardSigmoidBackward", .domain = "tandem", .since = {1}, .inputs = {2, 2}, .infer = infer_broadcast, .linear = Linear::first, .elementwise = true, .parameters = {{"alpha", 0.2F}, {"beta", 0.5F}}};
}

// dx = x ≥ 0 ? dy : α · dy
Operator leaky_relu_backward() {
  return {.name = "LeakyReluBackward", .domain = "tandem", .since = {1}, .inputs = {2, 2}, .infer = infer_broadcast, .linear = Linear::first, .elementwise = true, .parameters = {{"alpha", 0.01F}}};
}

// dx = y > 0 ? dy : 0
Operator relu_backward() { return {.name = "ReluBackward", .domain = "tandem", .since = {1}, .inputs = {2, 2}, .infer = infer_broadcast, .linear = Linear::first, .elementwise = true}; }

// dx = dy · y · (1 − y)
Operator sigmoid_backward() { return {.name = "SigmoidBackward", .domain = "tandem", .since = {1}, .inputs = {2, 2}, .infer = infer_broadcast, .linear = Linear::first, .elementwise = true}; }

// dx = dy · (1 − y²)
Operator tanh_backward() { return {.name = "TanhBackward", .domain = "tandem", .since = {1}, .inputs = {2, 2}, .infer = infer_broadcast, .linear = Linear::first, .elementwise = true}; }

}  // namespace tandem::operator_rows
