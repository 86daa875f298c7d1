// Updates of 16-bit plans: what lies between them and the 16-bit kernels goes.
#include <algorithm>
#include <map>

#include "planner/passes/graph_copy.h"
#include "planner/passes/passes.h"

namespace tandem {
namespace {

// Removes nodes that nothing needs any more.
void drop(Graph& graph, const std::vector<bool>& dropped) {
  std::vector<std::size_t> order;
  for (std::size_t n = 0; n < dropped.size(); ++n)
    if (!dropped[n]) order.push_back(n);
  arrange_nodes(graph, order);
}

// A gradient that is only cast to float32 for its update is read by that in 16 bits.
void take_narrow_gradients(Graph& graph) {
  const IdVector<ValueId, int> uses = graph.uses();
  IdVector<NodeId, bool> dropped(graph.nodes.size());
  for (GraphOutput& out : graph.outputs) {
    const NodeId producer = graph[out].producer;
    if (out.role != ValueRole::gradient || !producer.present() || uses[out] != 1) continue;
    const Node& cast = graph[producer];
    if (cast.op->name != "Cast" || !is_16_bit(graph[cast.inputs[0]].type.dtype)) continue;
    dropped[producer] = true;
    out.value = cast.inputs[0];
  }
  drop(graph, dropped);
}

// The Cast of each updated parameter to 16 bits becomes a parameter itself, which the update keeps equal: no step casts it.
void keep_narrow_copies(Graph& graph) {
  std::map<std::string, bool, std::less<>> copied;  // of the parameters that are updated
  for (const GraphOutput& out : graph.outputs)
    if (out.role == ValueRole::gradient) copied[out.of] = false;
  std::vector<bool> dropped(graph.nodes.size());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (node.op->name != "Cast" || !is_16_bit(graph[node.outputs[0]].type.dtype)) continue;
    const Value& parameter = graph[node.inputs[0]];
    const auto at = copied.find(parameter.name);
    if (parameter.kind != ValueKind::parameter || at == copied.end() || at->second) continue;
    if (std::find(graph.outputs.begin(), graph.outputs.end(), node.outputs[0]) != graph.outputs.end()) continue;
    Value& copy = graph[node.outputs[0]];
    copy.kind = ValueKind::parameter;
    copy.role = ValueRole::copy;
    copy.of = parameter.name;
    copy.producer = {};
    copy.name = concat(parameter.name, '/', copy.type.dtype);
    copy.source = parameter.source;
    copy.template_shape = parameter.template_shape;
    at->second = dropped[n] = true;
  }
  drop(graph, dropped);
}

}  // namespace

Graph narrow_updates(Graph graph) {
  take_narrow_gradients(graph);
  keep_narrow_copies(graph);
  return graph;
}

}  // namespace tandem
