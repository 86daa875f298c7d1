// The optimizers' updates, in place on parameters; see docs/internal-operators.md for the formulas. Inputs after the
// scalars repeat once a tensor: weight, gradient, state..., copy; outputs: weight, state..., copy. Which states there are
// graph/updates.h says. Copies, the weights in 16 bits, are there where the attribute `copies` says so.
#include "graph/operators/rules.h"
#include "graph/step_scalars.h"
#include "graph/updates.h"

namespace tandem::operator_rows {
namespace {

template <UpdateKind kind>
void infer_update(InferContext& c) {
  const std::int64_t tensors = c.attributes().integer("tensors");
  const UpdateNumbers numbers = update_numbers(kind, c.attributes());
  const int states = numbers.states + (numbers.copies ? 1 : 0);  // a copy is handled as they are
  const int ins = 2 + states, outs = 1 + states;
  expect_shape(c, 0, Shape{StepScalars::count});
  if (tensors < 1 || c.inputs() != 1 + tensors * ins || c.outputs() != tensors * outs)
    c.fail("has ", c.inputs(), " inputs and ", c.outputs(), " outputs for ", tensors, " tensors, expected ", 1 + tensors * ins, " and ",
           tensors * outs);
  for (int t = 0; t < tensors; ++t) {
    const int weight = 1 + t * ins;
    for (int i = 1; i < ins; ++i) expect_shape(c, weight + i, c.shape(weight));
    c.set_output(t * outs, c.input(weight));
    for (int i = 0; i < states; ++i) c.set_output(t * outs + 1 + i, c.input(weight + 2 + i));
  }
}

// Work per weight: about one multiply-add a state and three more.
double update_flops(const Graph& graph, const Node& n) {
  double total = 0;
  for (const ValueId v : n.outputs) total += 4.0 * static_cast<double>(graph[v].type.shape.elements());
  return total;
}

template <UpdateKind kind>
Operator update() {
  return {.name = update_rows()[static_cast<std::size_t>(kind)].op,
          .domain = "tandem",
          .since = {1},
          .inputs = {3, Arity::any},
          .outputs = {1, Arity::any},
          .infer = infer_update<kind>,
          .place = place_update,
          .flops = update_flops,
          .in_place = {1, 3, 4, 5}};  // all but the gradient
}

}  // namespace

Operator adadelta_update() { return update<UpdateKind::adadelta>(); }
Operator adagrad_update() { return update<UpdateKind::adagrad>(); }
Operator adam_update() { return update<UpdateKind::adam>(); }
Operator adamax_update() { return update<UpdateKind::adamax>(); }
Operator assign_update() { return update<UpdateKind::assign>(); }  // takes its "gradient" as it is
Operator lamb_update() { return update<UpdateKind::lamb>(); }
Operator lars_update() { return update<UpdateKind::lars>(); }
Operator lion_update() { return update<UpdateKind::lion>(); }
Operator nadam_update() { return update<UpdateKind::nadam>(); }
Operator radam_update() { return update<UpdateKind::radam>(); }
Operator rmsprop_update() { return update<UpdateKind::rmsprop>(); }
Operator sgd_update() { return update<UpdateKind::sgd>(); }

// The scalars of a step whose gradients are multiplied by `clip`: min(1, limit / (norm + 1e-6)), as PyTorch's clip_grad_norm_, where
// norm² is the sum over all gradients.
Operator clip_scalars() {
  return {.name = "ClipScalars", .domain = "tandem", .since = {1}, .inputs = {2, Arity::any}, .infer = [](InferContext& c) {
            expect_shape(c, 0, Shape{StepScalars::count});
            c.set_output(0, c.input(0));
          }, .flops = [](const Graph& graph, const Node& n) {
            double elements = 0;
            for (const ValueId in : n.inputs) elements += 2 * static_cast<double>(graph[in].type.shape.elements());
            return elements;
          }};
}

}  // namespace tandem::operator_rows
