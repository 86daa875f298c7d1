// BatchNormalizationTraining + Relu of a convolution's sums is not written to memory where only convolutions read it: they get
// its operands and apply it while they load their input.
#include <algorithm>
#include <map>

#include "planner/rewrite/fusing.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"

namespace tandem::pass_rows {
namespace {

// A convolution, or the gradient of one's weights, with these two operands more; by a backend's offer.
bool can_normalize(const Graph& graph, const Node& node, const Fuses& fuses) {
  const bool forward = node.op->name == "Conv";
  if (node.inputs.size() != 2 || (!forward && node.op->name != "ConvolutionBackwardWeights")) return false;
  std::vector<TensorType> inputs{graph[node.inputs[0]].type, graph[node.inputs[1]].type};
  if (forward) inputs.emplace_back();  // no bias
  inputs.insert(inputs.end(), 2, {inputs[0].dtype, Shape{inputs[0].shape[1]}});
  return offered(fuses, *node.op, node.attributes, inputs, node.outputs.size());
}

// How what a normalization wrote is made of its input now.
struct Factors {
  ValueId factor, shift;
};

Graph normalize_in_convolutions(const Graph& graph, const Fuses& fuses) {
  if (!fuses) return graph;
  const IdVector<ValueId, std::vector<NodeId>> readers = graph.consumers();
  const auto read_by_convolutions = [&](const Node& node) {
    if (node.op->name != "BatchNormalizationTraining" || node.inputs.size() < 6 || node.inputs[3].present() ||
        !node.attributes.has("activation"))
      return false;
    const ValueId y = node.outputs[0];
    const std::vector<NodeId>& all = readers[y];
    return !all.empty() && std::find(graph.outputs.begin(), graph.outputs.end(), y) == graph.outputs.end() &&
           std::all_of(all.begin(), all.end(), [&](NodeId n) {
             return can_normalize(graph, graph[n], fuses) && graph[n].inputs[0] == y && graph[n].inputs[1] != y;
           });
  };
  std::map<ValueId, Factors> factors;
  GraphCopy copy(graph);
  for (const Node& node : graph.nodes) {
    Node now = copy.mapped(node);
    if (read_by_convolutions(node)) {
      const TensorType& x = graph[node.inputs[0]].type;
      const Attributes attributes{{"epsilon", node.attributes.real("epsilon", 1e-5F)},
                                  {"count", x.shape.elements() / std::max<std::int64_t>(1, x.shape[1])},
                                  {"to", static_cast<std::int64_t>(x.dtype)}};
      const NodeId id = copy.to.add_node(internal_operator("BatchNormalizationFactors"), node.name, attributes,
                                         {now.inputs[4], now.inputs[5], now.inputs[1], now.inputs[2]}, 5, node.origin);
      const std::vector<ValueId> made = copy.to[id].outputs;
      for (std::size_t i = 1; i < 4; ++i)
        if (node.outputs[i].present()) copy.set(node.outputs[i], made[i - 1]);
      copy.set(node.outputs[0], now.inputs[0]);
      factors[node.outputs[0]] = {made[3], made[4]};
    } else if (const auto found = node.inputs.empty() ? factors.end() : factors.find(node.inputs[0]); found != factors.end()) {
      const auto& [factor, shift] = found->second;
      if (node.op->name == "Conv") now.inputs.resize(3);  // no bias
      now.inputs.insert(now.inputs.end(), {factor, shift});
      copy.copy(node, std::move(now.inputs), node.outputs.size());
    } else {
      copy.copy(node);
    }
  }
  return copy.finish();
}

}  // namespace

// BatchNormalizationTraining + Relu of what a convolution summed, where only convolutions and the gradients of their weights read it, and
// all of them are offered with that: they apply it themselves. After differentiation.
Pass normalize_in_convolutions() {
  return {.name = "normalize_in_convolutions",
          .run = [](Graph g, PassContext& c) { return normalize_in_convolutions(g, c.fuses); },
          .needs = differentiated,
          .why = "the normalized value is never written"};
}

}  // namespace tandem::pass_rows
