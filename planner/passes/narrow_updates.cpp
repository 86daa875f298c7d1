// Updates of 16-bit plans: what lies between them and the 16-bit kernels goes.
#include <algorithm>

#include "planner/passes/passes.h"

namespace tandem {
namespace {

// Removes the marked nodes: nothing computes their outputs any more.
void drop(Graph& graph, const std::vector<bool>& dropped) {
  std::size_t next = 0;
  std::erase_if(graph.nodes, [&](const Node&) { return dropped[next++]; });
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    for (const ValueId out : graph.nodes[n].outputs)
      if (out.present()) graph[out].producer = {static_cast<int>(n)};
}

// A gradient that is only cast to float32 for its update is read by that in 16 bits.
void take_narrow_gradients(Graph& graph, std::vector<ValueId>& gradients) {
  const auto users = graph.consumers();
  std::vector<bool> dropped(graph.nodes.size());
  for (ValueId& g : gradients) {
    if (!g.present() || !graph[g].producer.present() || !users[static_cast<std::size_t>(g.index)].empty()) continue;
    const Node& cast = graph[graph[g].producer];
    if (cast.op->name != "Cast" || !is_16_bit(graph[cast.inputs[0]].type.dtype) || std::find(graph.outputs.begin(), graph.outputs.end(), g) != graph.outputs.end()) continue;
    dropped[static_cast<std::size_t>(graph[g].producer.index)] = true;
    g = cast.inputs[0];
  }
  drop(graph, dropped);
}

// The Cast of each updated parameter to 16 bits becomes a parameter itself, which the update keeps equal: no step casts it.
// By parameter; absent where nothing reads it in 16 bits.
std::vector<ValueId> keep_narrow_copies(Graph& graph, std::span<const ValueId> parameters, std::span<const ValueId> gradients) {
  std::vector<ValueId> copies(parameters.size());
  std::vector<bool> dropped(graph.nodes.size());
  const auto among = [](ValueId v, std::span<const ValueId> list) { return std::find(list.begin(), list.end(), v) != list.end(); };
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (node.op->name != "Cast" || !is_16_bit(graph[node.outputs[0]].type.dtype)) continue;
    const auto at = static_cast<std::size_t>(std::find(parameters.begin(), parameters.end(), node.inputs[0]) - parameters.begin());
    if (at == parameters.size() || !gradients[at].present() || copies[at].present()) continue;
    if (among(node.outputs[0], graph.outputs) || among(node.outputs[0], gradients)) continue;
    const Value& parameter = graph[parameters[at]];
    Value& copy = graph[node.outputs[0]];
    copies[at] = node.outputs[0];
    copy.kind = ValueKind::parameter;
    copy.producer = {};
    copy.name = concat(parameter.name, '/', copy.type.dtype);
    copy.copy_of = parameter.name;
    copy.source = parameter.source;
    copy.template_shape = parameter.template_shape;
    dropped[n] = true;
  }
  drop(graph, dropped);
  return copies;
}

}  // namespace

std::vector<ValueId> narrow_updates(Graph& graph, std::span<const ValueId> parameters, std::vector<ValueId>& gradients, bool summed) {
  if (!summed) take_narrow_gradients(graph, gradients);
  return keep_narrow_copies(graph, parameters, gradients);
}

}  // namespace tandem
