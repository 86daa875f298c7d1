// Swaps a Relu and the MaxPool behind it: the larger of two numbers is found before or after negative ones are cut off, and
// afterwards there are fewer to cut.
#include <algorithm>

#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"

namespace tandem::pass_rows {
namespace {

Graph pool_before_relu(const Graph& graph) {
  const auto users = graph.consumers();
  const auto alone = [&](ValueId v) {
    return users[v].size() == 1 && std::find(graph.outputs.begin(), graph.outputs.end(), v) == graph.outputs.end();
  };
  GraphCopy copy(graph);
  for (const Node& node : graph.nodes) {
    const bool pools = node.op->name == "MaxPool" || node.op->name == "MaxPoolTraining";
    const Node* const relu = pools && alone(node.inputs[0]) ? made_by(graph, node.inputs[0], "Relu") : nullptr;
    if (!relu || made_by(graph, relu->inputs[0], "BatchNormalization") || made_by(graph, relu->inputs[0], "BatchNormalizationTraining")) {
      copy.copy(node);
      continue;
    }
    Node pool = node;
    pool.inputs[0] = relu->inputs[0];
    copy.copy(pool);
    const ValueId pooled = copy.map(node.outputs[0]);
    const std::string name = copy.to[pooled].name;
    copy.to[pooled].name = name + "/pooled";
    const NodeId id = copy.to.add_node(*relu->op, relu->name, relu->attributes, {pooled}, 1, relu->origin);
    const ValueId y = copy.to[id].outputs[0];
    copy.to[y].name = name;
    copy.set(node.outputs[0], y);
  }
  return copy.finish();
}

}  // namespace

// MaxPool(Relu(x)) is Relu(MaxPool(x)), with the same gradient; BatchNormalization + Relu stay together. Before differentiation.
Pass pool_before_relu() {
  return {.name = "pool_before_relu",
          .run = [](Graph g, PassContext&) { return pool_before_relu(g); },
          .why = "Relu works on what pooling leaves, and its operand need not be kept"};
}

}  // namespace tandem::pass_rows
