// Dynamic loss scaling: gradients are taken of loss · scale, so that small ones do not vanish in 16 bits. All of it
// happens on the device. `state` is a LossScaleState, all zero at first.
// Source: Micikevicius et al., "Mixed precision training", 2018.
#include "graph/operators/rules.h"
#include "graph/step_scalars.h"

namespace tandem::operator_rows {
namespace {

const Shape state_shape{LossScaleState::count}, scalars_shape{StepScalars::count};

}  // namespace

// finite = 1 where all elements of all operands are finite, else 0
Operator all_finite() {
  return {.name = "AllFinite",
          .domain = "tandem",
          .since = {1},
          .inputs = {1, Arity::any},
          .infer = [](InferContext& c) { c.set_output(0, DType::float32, Shape{}); },
          .flops =
              [](const Graph& graph, const Node& n) {
                double elements = 0;
                for (const ValueId in : n.inputs) elements += static_cast<double>(graph[in].type.shape.elements());
                return elements;
              }};
}

// scale = start · 2^state.exponent
Operator loss_scale() {
  return {.name = "LossScale", .domain = "tandem", .since = {1}, .infer = [](InferContext& c) {
            expect_shape(c, 0, state_shape);
            c.set_output(0, DType::float32, Shape{});
          }};
}

// After `interval` good steps in a row the scale doubles; after one that was not finite it halves. In place.
Operator loss_scale_update() {
  return {.name = "LossScaleUpdate",
          .domain = "tandem",
          .since = {1},
          .inputs = {2, 2},
          .infer =
              [](InferContext& c) {
                expect_shape(c, 0, state_shape);
                expect_shape(c, 1, Shape{});
                infer_same(c);
              },
          .in_place = {0}};
}

// The scalars of a step whose gradients are scaled: its number is less by the steps skipped, so are 1 − βᵗ; the loss
// scale stands in its place; where `finite` is 0 the step is to be skipped.
Operator scaled_scalars() {
  return {.name = "ScaledScalars", .domain = "tandem", .since = {1}, .inputs = {3, 3}, .infer = [](InferContext& c) {
            expect_shape(c, 0, scalars_shape);
            expect_shape(c, 1, state_shape);
            expect_shape(c, 2, Shape{});
            infer_same(c);
          }};
}

}  // namespace tandem::operator_rows
