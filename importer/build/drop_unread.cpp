// Marks what is needed; then all ids are given out anew.
#include "importer/build/drop_unread.h"

#include "graph/operator.h"

namespace tandem {

void drop_unread(Graph& graph) {
  const IdVector<NodeId, bool> needed = needed_nodes(graph);
  IdVector<ValueId, bool> read(graph.values.size());
  for (const ValueId out : graph.outputs) read[out] = true;
  std::vector<Node> nodes;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!needed[n]) continue;
    for (const auto* const list : {&graph.nodes[n].inputs, &graph.nodes[n].outputs})  // outputs of a kept node keep their places
      for (const ValueId v : *list)
        if (v.present()) read[v] = true;
    nodes.push_back(std::move(graph.nodes[n]));
  }
  graph.nodes = std::move(nodes);

  IdVector<ValueId, ValueId> moved(graph.values.size());
  std::vector<Value> values;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const ValueKind kind = graph.values[i].kind;
    if (!read[i] && kind != ValueKind::input && kind != ValueKind::parameter) continue;
    moved[i] = {static_cast<int>(values.size())};
    values.push_back(std::move(graph.values[i]));
  }
  graph.values = std::move(values);
  const auto renumber = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids)
      if (id.present()) id = moved[id];
  };
  renumber(graph.inputs);
  for (GraphOutput& out : graph.outputs) out.value = moved[out];
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    renumber(graph.nodes[n].inputs);
    renumber(graph.nodes[n].outputs);
    for (const ValueId out : graph.nodes[n].outputs)
      if (out.present()) graph[out].producer = {static_cast<int>(n)};
  }
}

}  // namespace tandem
