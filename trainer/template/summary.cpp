#include "trainer/template/summary.h"

#include <algorithm>
#include <set>

#include "base/units.h"
#include "graph/operator.h"
#include "planner/passes/freeze.h"

namespace tandem {
namespace {

constexpr std::size_t widest = 48;

std::vector<SummaryTensor> tensors_of(const std::vector<TemplateTensor>& tensors, const CompileOptions& names) {
  std::vector<SummaryTensor> list;
  for (const TemplateTensor& t : tensors) list.push_back({t, t.holding != Holding::constant && is_frozen(t.name, names)});
  return list;
}

std::string sum_of(const Summary& s) {
  std::string what = concat(text_of_integer(s.trainable), " trainable");
  if (s.adapters > 0)
    what += concat(": ", text_of_integer(s.in_adapters), s.adapters == 1 ? " in 1 adapter" : concat(" in ", s.adapters, " adapters"),
                   s.trainable > s.in_adapters ? ", the rest beside them" : "", "; ", text_of_integer(s.frozen), " frozen");
  return concat("parameters ", text_of_integer(s.parameters), " (", what, "), ", text_of_bytes(s.bytes));
}

}  // namespace

Summary summarize(const Graph& given, const std::vector<TemplateTensor>& tensors, const CompileOptions& names) {
  Summary summary{.model = given.name};
  summary.warnings = given.warnings;
  const Graph graph = freeze(given, names, summary.warnings);
  summary.tensors = tensors_of(tensors, names);
  for (SummaryTensor& t : summary.tensors)  // statistics are frozen with their normalization
    for (const Node& node : graph.nodes)
      for (std::size_t i = 3; node.attributes.has("frozen") && i < 5; ++i)
        t.frozen = t.frozen || graph[node.inputs[i]].name == t.tensor.name;
  std::vector<bool> counted(graph.values.size());
  for (const Node& node : graph.nodes) {
    SummaryRow row{.node = node.name, .op = std::string(node.op->name), .output = {}, .flops = flops_of(graph, node)};
    if (!node.outputs.empty() && node.outputs[0].present()) row.output = graph[node.outputs[0]].type;
    for (const ValueId in : node.inputs) {
      if (!in.present() || graph[in].kind != ValueKind::parameter || counted[static_cast<std::size_t>(in.index)]) continue;
      counted[static_cast<std::size_t>(in.index)] = true;
      const Value& value = graph[in];
      const std::int64_t n = value.type.shape.elements();
      row.parameters += n;
      summary.trainable += value.trainable ? n : 0;
      summary.frozen += !value.trainable && is_frozen(value.name, names) ? n : 0;
      summary.bytes += n * static_cast<std::int64_t>(size_of(value.type.dtype));
    }
    summary.parameters += row.parameters;
    summary.flops += row.flops;
    summary.rows.push_back(std::move(row));
  }
  return summary;
}

Summary outline(const std::string& model, const std::vector<OutlineNode>& nodes, const std::vector<TemplateTensor>& tensors,
                std::vector<Problem> problems, const CompileOptions& names) {
  Summary summary{.model = model};
  summary.tensors = tensors_of(tensors, names);
  summary.problems = std::move(problems);
  std::set<std::string> counted;
  for (const OutlineNode& node : nodes) {
    SummaryRow row{.node = node.name, .op = node.op, .output = node.output};
    for (const SummaryTensor& t : summary.tensors) {
      const bool read = std::find(node.reads.begin(), node.reads.end(), t.tensor.name) != node.reads.end();
      if (!read || t.tensor.holding == Holding::constant || !counted.insert(t.tensor.name).second) continue;
      const std::int64_t n = t.tensor.type.shape.elements();
      row.parameters += n;
      summary.trainable += t.tensor.holding == Holding::trained && !t.frozen ? n : 0;
      summary.bytes += n * static_cast<std::int64_t>(size_of(t.tensor.type.dtype));
    }
    summary.parameters += row.parameters;
    summary.rows.push_back(std::move(row));
  }
  return summary;
}

std::string text_of(const Summary& summary) {
  using enum TextTable::Align;
  TextTable table({{"node"}, {"operator"}, {"output"}, {"parameters", right}, {"FLOP", right}});
  for (const SummaryRow& row : summary.rows)
    table.add({shorten(row.node, widest), row.op, row.output ? to_string(*row.output) : "?",
               row.parameters ? text_of_integer(row.parameters) : "", row.flops > 0 ? text_of_count(row.flops) : ""});
  std::string text = concat("Model ", shorten(summary.model, widest), "\n\n", table.text("  "), '\n', sum_of(summary));
  if (summary.problems.empty()) return concat(text, "; ", text_of_count(summary.flops), "FLOP a sample, forward\n");
  return text += '\n';
}

std::string text_of_tensors(const Summary& summary) {
  using enum TextTable::Align;
  TextTable table({{"tensor"}, {"type"}, {"values", right}, {"is"}, {"because of"}});
  for (const SummaryTensor& t : summary.tensors)
    table.add({t.tensor.name, to_string(t.tensor.type), text_of_integer(t.tensor.type.shape.elements()),
               concat(name_of(t.tensor.holding), t.frozen ? ", frozen" : "", t.tensor.certain ? "" : " (by rule)"), t.tensor.reason});
  return concat("Model ", shorten(summary.model, widest), "\n\n", table.text("  "), '\n', sum_of(summary), '\n');
}

}  // namespace tandem
