// In place of a loss: the gradients of the model's outputs, which are inputs.
#include "graph/operator.h"
#include "planner/loss/external_loss.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"

namespace tandem::pass_rows {
namespace {

Graph take_gradients(Graph graph) {
  GraphBuilder b(graph, "gradient", {});
  for (GraphOutput& out : graph.outputs) {
    const Value value = graph[out];
    out.of = value.name;  // by which it is known, whatever makes it in the end
    if (!is_float(value.type.dtype)) continue;
    const ValueId gradient = b.input(concat("gradient/", value.name), value.type, ValueRole::gradient, value.name);
    graph[gradient].depends_on_batch = value.depends_on_batch;
    graph[gradient].batch = value.batch;
  }
  return graph;
}

}  // namespace

// Each output of floats gets an input of its type and of the role gradient, whose `of` is the output's name: before any pass gives it
// another.
Pass take_gradients() {
  return {.name = "take_gradients",
          .run = [](Graph g, PassContext&) { return take_gradients(std::move(g)); },
          .gives = {Property::loss},
          .when = [](const PassContext& c) { return has_external_loss(c.options); },
          .why = "the caller computes the loss, and brings its gradients"};
}

}  // namespace tandem::pass_rows
