// One walk from the outputs back marks what is needed; then all ids are given out anew.
#include "importer/build/drop_unread.h"

namespace tandem {
namespace {

std::size_t at(ValueId id) {
  return static_cast<std::size_t>(id.index);
}

}  // namespace

void drop_unread(Graph& graph) {
  std::vector<bool> read(graph.values.size());
  for (const ValueId out : graph.outputs) read[at(out)] = true;
  std::vector<Node> nodes;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    bool needed = false;
    for (const ValueId out : node->outputs) needed = needed || (out.present() && read[at(out)]);
    if (!needed) continue;
    for (const ValueId in : node->inputs)
      if (in.present()) read[at(in)] = true;
    for (const ValueId out : node->outputs)
      if (out.present()) read[at(out)] = true;  // outputs of a kept node keep their places
    nodes.push_back(std::move(*node));
  }
  graph.nodes.assign(std::make_move_iterator(nodes.rbegin()), std::make_move_iterator(nodes.rend()));

  std::vector<ValueId> moved(graph.values.size());
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
      if (id.present()) id = moved[at(id)];
  };
  renumber(graph.inputs);
  for (GraphOutput& out : graph.outputs) out.value = moved[at(out)];
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    renumber(graph.nodes[n].inputs);
    renumber(graph.nodes[n].outputs);
    for (const ValueId out : graph.nodes[n].outputs)
      if (out.present()) graph[out].producer = {static_cast<int>(n)};
  }
}

}  // namespace tandem
