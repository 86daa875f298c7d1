#include "trainer/feed/index_range.h"

#include <algorithm>
#include <cmath>

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

// Where(c, a, b) never gives NaN of operand `i` though that holds some: c is, or is not, IsNaN of it, or it unequal to itself.
bool is_guarded(const Graph& graph, const Node& where, std::size_t i) {
  bool when = i == 1;  // the condition under which the operand is taken
  ValueId condition = where.inputs[0];
  while (const Node* const n = made_by(graph, condition, "Not")) {
    condition = n->inputs[0];
    when = !when;
  }
  const ValueId x = where.inputs[i];
  if (const Node* const n = made_by(graph, condition, "IsNaN")) return !when && n->inputs[0] == x;
  const Node* const n = made_by(graph, condition, "Equal");
  return n && when && n->inputs[0] == x && n->inputs[1] == x;
}

bool sees_to_nan(const Graph& graph, const std::vector<std::vector<NodeId>>& users, ValueId value) {
  if (std::find(graph.outputs.begin(), graph.outputs.end(), value) != graph.outputs.end()) return false;
  for (const NodeId user : users[static_cast<std::size_t>(value.index)]) {
    const Node& node = graph[user];
    const std::string_view op = node.op->name;
    const bool asks = graph[node.outputs[0]].type.dtype == DType::boolean && op != "Cast";
    const bool replaces = op == "Imputer" && std::isnan(node.attributes.real("replaced_value_float", 0));
    if (asks || replaces || op.starts_with("TreeEnsemble")) continue;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != value || (op == "Where" && i > 0 && is_guarded(graph, node, i))) continue;
      const bool moves = is_view(operand_of(*node.op, static_cast<int>(i)).role);
      if (!moves || !std::ranges::all_of(node.outputs, [&](ValueId out) { return !out.present() || sees_to_nan(graph, users, out); }))
        return false;
    }
  }
  return true;
}

}  // namespace

bool takes_nan(const Graph& graph, ValueId input) {
  const auto users = graph.consumers();
  return !users[static_cast<std::size_t>(input.index)].empty() && sees_to_nan(graph, users, input);
}

IndexRange index_range(const Graph& graph, ValueId input) {
  return range_of(graph, graph.consumers(), input);
}

}  // namespace tandem
