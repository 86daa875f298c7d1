#include "graph/known.h"

#include <set>

#include "graph/operator.h"

namespace tandem {

bool is_known(const Graph& graph, ValueId v) {
  std::vector<ValueId> open{v};
  std::set<int> seen;
  while (!open.empty()) {
    const Value& value = graph[open.back()];
    open.pop_back();
    if (value.kind == ValueKind::constant) continue;
    if (value.depends_on_batch || !value.producer.present() || graph[value.producer].inputs.empty()) return false;
    for (const ValueId in : graph[value.producer].inputs)
      if (in.present() && seen.insert(in.index).second) open.push_back(in);
  }
  return true;
}

bool is_known_weight(const Graph& graph, const Node& node, std::size_t operand) {
  const OperandRole role = operand < node.op->operands.size() ? node.op->operands[operand].role : OperandRole::data;
  const bool weight = role == OperandRole::matrix || role == OperandRole::filter || role == OperandRole::embedding;
  return weight && node.inputs[operand].present() && is_known(graph, node.inputs[operand]);
}

}  // namespace tandem
