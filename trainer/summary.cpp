#include "trainer/summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/operator.h"

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
  std::size_t node_width = 4, op_width = 8, shape_width = 6;
  for (const SummaryRow& row : summary.rows) {
    node_width = std::clamp(row.node.size(), node_width, std::size_t{48});
    op_width = std::max(op_width, row.op.size());
    shape_width = std::max(shape_width, to_string(row.output).size());
  }
  const auto line = [&](std::string_view node, std::string_view op, std::string_view shape, std::string_view parameters) {
    return fmt::format("{:<{}.{}}  {:<{}}  {:<{}}  {:>12}\n", node, node_width, node_width, op, op_width, shape, shape_width, parameters);
  };
  const std::string rule = std::string(node_width + op_width + shape_width + 18, '-') + '\n';
  std::string out = fmt::format("Model {}\n", summary.model) + line("node", "operator", "output", "parameters") + rule;
  for (const SummaryRow& row : summary.rows)
    out += line(row.node, row.op, to_string(row.output), row.parameters ? fmt::format("{}", row.parameters) : std::string());
  out += rule;
  out += fmt::format("parameters {} ({} trainable), {:.2f} MB; {:.3g} million operations a sample\n", summary.parameters, summary.trainable,
                     static_cast<double>(summary.bytes) / 1e6, summary.flops / 1e6);
  return out;
}

}  // namespace tandem
