// In place of updates: nothing takes the gradients but the caller, who has those that keep_gradients made outputs.
#include "planner/loss/external_loss.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"

namespace tandem::pass_rows {
namespace {

Graph give_gradients(Graph graph) {
  std::erase_if(graph.outputs, [](const GraphOutput& out) { return out.role == ValueRole::gradient; });
  put_updates_last(graph);
  drop_unread(graph);
  return graph;
}

}  // namespace

// The gradients are no outputs any more, but for those that are kept. What is left of updates is that of running statistics.
Pass give_gradients() {
  return {.name = "give_gradients",
          .run = [](Graph g, PassContext&) { return give_gradients(std::move(g)); },
          .needs = differentiated,
          .ends = {Property::gradients},
          .when = [](const PassContext& c) { return has_external_loss(c.options); },
          .why = "the caller updates the parameters",
          .required = "no update takes the gradients"};
}

}  // namespace tandem::pass_rows
