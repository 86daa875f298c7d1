// The optimizers' updates, in place on parameters; see docs/internal-operators.md for the formulas. Inputs after the
// scalars repeat once a tensor: weight, gradient, state..., copy; outputs: weight, state..., copy. Copies, the weights in
// 16 bits, are there where the attribute `copies` says so.
#include "graph/operators/rules.h"
#include "graph/step_scalars.h"

namespace tandem::operator_rows {
namespace {

void infer_update(InferContext& c, int states) {
  const std::int64_t tensors = c.attributes().integer("tensors");
  states += c.attributes().integer("copies", 0) != 0 ? 1 : 0;  // handled as they are
  const int ins = 2 + states, outs = 1 + states;
  expect_shape(c, 0, Shape{StepScalars::count});
  if (tensors < 1 || c.inputs() != 1 + tensors * ins || c.outputs() != tensors * outs)
    c.fail("has ", c.inputs(), " inputs and ", c.outputs(), " outputs for ", tensors, " tensors, expected ", 1 + tensors * ins, " and ", tensors * outs);
  for (int t = 0; t < tensors; ++t) {
    const int weight = 1 + t * ins;
    for (int i = 1; i < ins; ++i) expect_shape(c, weight + i, c.shape(weight));
    c.set_output(t * outs, c.input(weight));
    for (int i = 0; i < states; ++i) c.set_output(t * outs + 1 + i, c.input(weight + 2 + i));
  }
}

bool has_momentum(const InferContext& c) { return c.attributes().real("momentum", 0) != 0; }

// Work per weight: about one multiply-add a state and three more.
double update_flops(const Graph& graph, const Node& n) {
  double total = 0;
  for (const ValueId v : n.outputs) total += 4.0 * static_cast<double>(graph[v].type.shape.elements());
  return total;
}

}  // namespace

Operator sgd_update() {
  return {.name = "SgdUpdate",
          .domain = "tandem",
          .since = {1},
          .inputs = {3, Arity::any},
          .outputs = {1, Arity::any},
          .infer = [](InferContext& c) { infer_update(c, has_momentum(c) ? 1 : 0); }, .place = place_update,
          .flops = update_flops,
          .in_place = {1, 3}};
}

Operator adam_update() {
  return {.name = "AdamUpdate", .domain = "tandem", .since = {1}, .inputs = {5, Arity::any}, .outputs = {3, Arity::any}, .infer = [](InferContext& c) { infer_update(c, 2); }, .place = place_update, .flops = update_flops, .in_place = {1, 3, 4}};
}

Operator rmsprop_update() {
  return {.name = "RmspropUpdate",
          .domain = "tandem",
          .since = {1},
          .inputs = {4, Arity::any},
          .outputs = {2, Arity::any},
          .infer = [](InferContext& c) { infer_update(c, has_momentum(c) ? 2 : 1); }, .place = place_update,
          .flops = update_flops,
          .in_place = {1, 3, 4}};
}

}  // namespace tandem::operator_rows
