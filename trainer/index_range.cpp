#include "trainer/index_range.h"

#include <algorithm>

#include "graph/operator.h"

namespace tandem {
namespace {

// Operators whose output holds elements of their first input and no others.
constexpr std::string_view passing[] = {"Identity", "Cast", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand", "Tile", "Slice", "Split"};

void narrow(IndexRange& range, const IndexRange& other) {
  if (other.count > 0 && (range.count == 0 || other.count < range.count)) range = other;
}

IndexRange range_of(const Graph& graph, const std::vector<std::vector<NodeId>>& users, ValueId value) {
  IndexRange range;
  for (const NodeId user : users[static_cast<std::size_t>(value.index)]) {
    const Node& node = graph[user];
    const std::string_view op = node.op->name;
    const bool second = node.inputs.size() > 1 && node.inputs[1] == value;
    if (op == "Gather" && second) {
      const std::int64_t rows = graph[node.inputs[0]].type.shape[static_cast<int>(node.attributes.integer("axis", 0))];
      narrow(range, {.lowest = -rows, .count = rows});
    } else if ((op == "SoftmaxCrossEntropyLoss" || op == "NegativeLogLikelihoodLoss") && second) {
      IndexRange classes{.count = graph[node.inputs[0]].type.shape[1]};
      if (node.attributes.has("ignore_index")) classes.ignored = node.attributes.integer("ignore_index");
      narrow(range, classes);
    } else if (node.inputs[0] == value && std::find(std::begin(passing), std::end(passing), op) != std::end(passing)) {
      for (const ValueId out : node.outputs) narrow(range, range_of(graph, users, out));
    }
  }
  return range;
}

}  // namespace

IndexRange index_range(const Graph& graph, ValueId input) {
  return range_of(graph, graph.consumers(), input);
}

}  // namespace tandem
