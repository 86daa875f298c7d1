// What the loss does not see of a model is not computed.
#include "planner/loss/external_loss.h"
#include "planner/loss/loss_value.h"
#include "planner/rewrite/pass.h"

namespace tandem::pass_rows {
namespace {

Graph keep_logits(Graph graph, const CompileOptions& o) {
  const std::vector<ValueId> logits = logits_of(graph, o);
  graph.outputs.assign(logits.begin(), logits.end());
  return graph;
}

}  // namespace

// The outputs become those values that the losses are computed from.
Pass keep_logits() {
  return {.name = "keep_logits",
          .run = [](Graph g, PassContext& c) { return keep_logits(std::move(g), c.options); },
          .when = [](const PassContext& c) { return !has_external_loss(c.options); },
          .why = "what the loss does not see need not be computed",
          .required = "the losses are computed from what it leaves"};
}

}  // namespace tandem::pass_rows
