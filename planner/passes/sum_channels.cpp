// Lets a convolution sum each channel of its output, and the squares, while it writes it; BatchNormalizationTraining behind it
// then takes the sums and reads the tensor once less.
#include <map>

#include "planner/passes/graph_copy.h"
#include "planner/passes/passes.h"

namespace tandem {
namespace {

// Tensor cores take channels in eights; others cost the convolution more than the statistics' own pass over its output.
bool sums(const Graph& graph, const Node& conv) {
  const Shape &x = graph[conv.inputs[0]].type.shape, &y = graph[conv.outputs[0]].type.shape;
  return conv.inputs.size() == 2 && !conv.attributes.has("activation") && conv.attributes.integer("group") == 1 && x[1] % 8 == 0 && y[1] % 8 == 0;
}

}  // namespace

Graph sum_channels(const Graph& graph, const Fusions& fusions) {
  if (!fusions.channel_sums) return graph;
  const auto summed = [&](const Node& node) -> NodeId {  // the convolution that sums for this node
    if (node.op->name != "BatchNormalizationTraining" || node.inputs.size() > 4) return {};
    const NodeId conv = graph[node.inputs[0]].producer;
    return conv.present() && graph[conv].op->name == "Conv" && graph[conv].outputs.size() == 1 && sums(graph, graph[conv]) ? conv : NodeId{};
  };
  std::map<ValueId, NodeId> now;  // by what such a convolution writes
  for (const Node& node : graph.nodes)
    if (summed(node).present()) now[node.inputs[0]] = {};
  GraphCopy copy(graph);
  for (const Node& node : graph.nodes) {
    std::vector<ValueId> inputs = copy.mapped(node).inputs;
    if (const auto conv = now.find(node.outputs[0]); conv != now.end()) {
      conv->second = copy.copy(node, std::move(inputs), 3);
    } else if (summed(node).present()) {
      const Node conv = copy.to[now[node.inputs[0]]];
      inputs.resize(4);
      inputs.insert(inputs.end(), {conv.outputs[1], conv.outputs[2]});
      copy.copy(node, std::move(inputs), node.outputs.size());
    } else {
      copy.copy(node);
    }
  }
  return copy.finish();
}

}  // namespace tandem
