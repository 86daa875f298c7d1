#include "trainer/summary.h"

#include "graph/operator.h"
#include "planner/plan/units.h"

namespace tandem {

Summary summarize(const Graph& graph) {
  Summary summary{.model = graph.name};
  std::vector<bool> counted(graph.values.size());
  for (const Node& node : graph.nodes) {
    SummaryRow row{.node = node.name, .op = std::string(node.op->name), .flops = flops_of(graph, node)};
    if (!node.outputs.empty() && node.outputs[0].present()) row.output = graph[node.outputs[0]].type;
    for (const ValueId in : node.inputs) {
      if (!in.present() || graph[in].kind != ValueKind::parameter || counted[static_cast<std::size_t>(in.index)]) continue;
      counted[static_cast<std::size_t>(in.index)] = true;
      const Value& value = graph[in];
      const std::int64_t n = value.type.shape.elements();
      row.parameters += n;
      summary.trainable += value.trainable ? n : 0;
      summary.bytes += n * static_cast<std::int64_t>(size_of(value.type.dtype));
    }
    summary.parameters += row.parameters;
    summary.flops += row.flops;
    summary.rows.push_back(std::move(row));
  }
  return summary;
}

std::string text_of(const Summary& summary) {
  constexpr std::size_t widest = 48;
  using enum TextTable::Align;
  TextTable table({{"node"}, {"operator"}, {"output"}, {"parameters", right}, {"FLOP", right}});
  for (const SummaryRow& row : summary.rows)
    table.add({shorten(row.node, widest), row.op, to_string(row.output), row.parameters ? text_of_integer(row.parameters) : "",
               row.flops > 0 ? text_of_count(row.flops) : ""});
  return concat("Model ", shorten(summary.model, widest), "\n\n", table.text("  "), "\nparameters ", text_of_integer(summary.parameters), " (",
                text_of_integer(summary.trainable), " trainable), ", text_of_bytes(summary.bytes), "; ", text_of_count(summary.flops),
                "FLOP a sample, forward\n");
}

}  // namespace tandem
