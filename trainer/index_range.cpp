#include "trainer/index_range.h"

#include "graph/operator.h"

namespace tandem {
namespace {

void narrow(IndexRange& range, const IndexRange& other) {
  if (other.count > 0 && (range.count == 0 || other.count < range.count)) range = other;
}

IndexRange range_of(const Graph& graph, const std::vector<std::vector<NodeId>>& users, ValueId value) {
  IndexRange range;
  for (const NodeId user : users[static_cast<std::size_t>(value.index)]) {
    const Node& node = graph[user];
    const auto extent = [&](std::int64_t axis) { return graph[node.inputs[0]].type.shape[static_cast<int>(axis)]; };
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != value) continue;
      const OperandRole role = operand_of(*node.op, static_cast<int>(i)).role;
      if (role == OperandRole::positions) {
        const std::int64_t count = extent(node.attributes.integer("axis", 0));
        narrow(range, {.lowest = -count, .count = count});
      } else if (role == OperandRole::classes) {
        IndexRange classes{.count = extent(1)};
        if (node.attributes.has("ignore_index")) classes.ignored = node.attributes.integer("ignore_index");
        narrow(range, classes);
      } else if (is_view(role)) {
        // Of a list of outputs all are parts of the operand, of others the first: TopK's second are places.
        const std::size_t parts = node.op->outputs.most == Arity::any ? node.outputs.size() : 1;
        for (std::size_t o = 0; o < parts; ++o)
          if (node.outputs[o].present()) narrow(range, range_of(graph, users, node.outputs[o]));
      }
    }
  }
  return range;
}

}  // namespace

IndexRange index_range(const Graph& graph, ValueId input) {
  return range_of(graph, graph.consumers(), input);
}

}  // namespace tandem
