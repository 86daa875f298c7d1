// Lets a convolution sum each channel of its output, and the squares, while it writes it; BatchNormalizationTraining behind it
// then takes the sums and reads the tensor once less.
#include <map>
#include <set>

#include "planner/rewrite/fusing.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"

namespace tandem::pass_rows {
namespace {

// Whether this normalization is to take its statistics from sums of the convolution before it.
bool summed(const Graph& graph, const Node& node, const Fuses& fuses) {
  if (node.op->name != "BatchNormalizationTraining" || node.inputs.size() > 4) return false;
  const NodeId conv = graph[node.inputs[0]].producer;
  if (!conv.present() || graph[conv].op->name != "Conv" || graph[conv].outputs.size() != 1 || !offered(fuses, graph, graph[conv], 3))
    return false;
  Node takes = node;
  takes.inputs.resize(4);
  takes.inputs.insert(takes.inputs.end(), 2, node.inputs[1]);  // sums are of the scale's type
  return offered(fuses, graph, takes, takes.outputs.size());
}

Graph sum_channels(const Graph& graph, const Fuses& fuses) {
  std::map<ValueId, NodeId> now;  // by what a convolution that sums writes
  std::set<ValueId> normalized;   // by such normalizations
  for (const Node& node : graph.nodes) {
    if (!summed(graph, node, fuses)) continue;
    now[node.inputs[0]] = {};
    normalized.insert(node.outputs[0]);
  }
  if (now.empty()) return graph;
  GraphCopy copy(graph);
  for (const Node& node : graph.nodes) {
    std::vector<ValueId> inputs = copy.mapped(node).inputs;
    if (const auto conv = now.find(node.outputs[0]); conv != now.end()) {
      conv->second = copy.copy(node, std::move(inputs), 3);
    } else if (normalized.contains(node.outputs[0])) {
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

}  // namespace

// What BatchNormalizationTraining's statistics are computed from is summed by the convolution before it, where that is offered. After
// mixed_precision, before differentiation.
Pass sum_channels() {
  return {.name = "sum_channels",
          .run = [](Graph g, PassContext& c) { return sum_channels(g, c.fuses); },
          .needs = {Property::primitive},
          .why = "statistics need no pass over the convolution's result"};
}

}  // namespace tandem::pass_rows
