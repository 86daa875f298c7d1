// The running variance follows 1/√(variance + ε), which BatchNormalization keeps for its gradient, where that is offered: then no
// kernel is started to make the variance of it.
#include <algorithm>
#include <map>
#include <set>

#include "planner/rewrite/fusing.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"

namespace tandem::pass_rows {
namespace {

bool is_statistic(const Node& node) { return node.op->keeps_statistic && !node.attributes.has("tensors"); }

// What a statistic of the normalization becomes; that of the mean, too, so that one kernel may take both.
Attributes attributes_of(const Node& statistic, const Node& normalization, bool inverse) {
  Attributes a{{"momentum", statistic.attributes.real("momentum")},
               {"tensors", std::int64_t{1}},
               {"inverse", Ints{inverse}},
               {"epsilon", normalization.attributes.real("epsilon", 1e-5F)}};
  if (statistic.attributes.has("counts")) a.set("counts", statistic.attributes.ints("counts"));
  return a;
}

// Whether nothing else wants the variance: gradients of kernels that keep the deviation read that.
bool can_go(const Graph& graph, const Node& normalization, const std::vector<NodeId>& readers, const Fuses& fuses) {
  const ValueId variance = normalization.outputs[2];
  if (std::find(graph.outputs.begin(), graph.outputs.end(), variance) != graph.outputs.end()) return false;
  bool any = false;
  for (const NodeId n : readers) {
    const Node& node = graph[n];
    if (is_statistic(node) && node.inputs[1] == variance) {
      const TensorType& running = graph[node.inputs[0]].type;
      any = true;
      if (running != graph[variance].type || !offered(fuses, *node.op, attributes_of(node, normalization, true), {{}, running, running}, 1))
        return false;
    } else if (node.op->name != "BatchNormalizationBackward" || node.inputs[5] != variance) {
      return false;
    }
  }
  return any;
}

Graph running_variances(const Graph& graph, const Fuses& fuses) {
  if (!fuses) return graph;
  const auto readers = graph.consumers();
  std::map<ValueId, const Node*> without, means;  // normalizations by the variance that is no longer made, by the mean
  for (const Node& node : graph.nodes) {
    if (node.op->name != "BatchNormalizationTraining" || !node.outputs[2].present() ||
        !can_go(graph, node, readers[node.outputs[2]], fuses))
      continue;
    without[node.outputs[2]] = &node;
    means[node.outputs[1]] = &node;
  }
  if (without.empty()) return graph;
  GraphCopy copy(graph);
  for (const Node& node : graph.nodes) {
    Node now = node;
    if (node.op->name == "BatchNormalizationTraining" && without.contains(node.outputs[2])) now.outputs[2] = {};
    if (node.op->name == "BatchNormalizationBackward" && without.contains(node.inputs[5])) now.inputs[5] = {};
    for (const auto* const list : {&without, &means}) {
      const auto found = is_statistic(node) ? list->find(node.inputs[1]) : list->end();
      if (found == list->end()) continue;
      const bool inverse = list == &without;
      now.attributes = attributes_of(node, *found->second, inverse);
      now.inputs = {node.inputs.size() > 2 ? node.inputs[2] : ValueId{}, node.inputs[0],
                    inverse ? found->second->outputs[3] : node.inputs[1]};
    }
    copy.copy(now);
  }
  return copy.finish();
}

}  // namespace

// The running variance of a normalization whose variance nothing else reads follows what is kept for the gradient, where that is
// offered. Once updates are appended.
Pass running_variances() {
  return {.name = "running_variances",
          .run = [](Graph g, PassContext& c) { return running_variances(g, c.fuses); },
          .needs = {Property::updated},
          .why = "the variance itself is never written"};
}

}  // namespace tandem::pass_rows
