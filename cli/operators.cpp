#include <fmt/format.h>

#include <algorithm>

#include "base/spec.h"
#include "cli/command.h"
#include "graph/operator.h"
#include "graph/operators/rules.h"
#include "importer/build/decomposed.h"

namespace tandem {
namespace {

struct OperatorsFlags : FlagGroup {
  Flag<std::string> format{*this, "format", "NAME", "text", "text, json or markdown"};
};
constexpr OperatorsFlags operators_flags;

struct Row {
  std::string op, opsets, gradient;
  std::vector<std::string> kernels;  // by backend
};

std::string opsets_of(const auto& op) {
  std::string text;
  for (const int since : op.since) text += concat(text.empty() ? "" : ", ", since);
  return text;
}

// A gradient of its own, that of what it expands to, or the zero of piecewise constant operators. Operators on integers
// and shapes have none to have.
std::string gradient_of(const Operator& op) {
  if (op.differentiate == zero_gradient) return "zero";
  return op.differentiate ? "yes" : op.expand ? "composed" : "none";
}

std::string kernels_of(const Operator& op, const Backend& backend) {
  std::string text;
  for (const KernelRow& row : backend.rows())
    if (row.op == op.name && op.domain.empty()) text += concat(text.empty() ? "" : ", ", row.kernel);
  if (!text.empty()) return text;
  if (op.expand) return "composed";
  if (op.elementwise) return "elementwise";
  return op.fold ? "folded" : "none";
}

std::string name_of(std::string_view domain, std::string_view op) { return domain.empty() ? std::string(op) : concat(domain, "::", op); }

std::vector<Row> table(Backends backends) {
  std::vector<Row> rows;
  for (const Operator& op : operators()) {
    if (op.domain == "tandem") continue;
    Row row{name_of(op.domain, op.name), opsets_of(op), gradient_of(op), {}};
    for (const Backend* b : backends) row.kernels.push_back(kernels_of(op, *b));
    rows.push_back(std::move(row));
  }
  for (const Decomposed& op : decomposed())
    rows.push_back({name_of(op.domain, op.op), opsets_of(op), op.differentiable ? "composed" : "none",
                    std::vector<std::string>(backends.size(), "taken apart")});
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    const auto key = [](const Row& row) { return std::pair(row.op.find("::") != std::string::npos, std::string_view(row.op)); };
    return key(a) < key(b);  // ai.onnx's own first
  });
  return rows;
}

// Columns with a title row; `open`, `between` and `close` make plain text or a Markdown table.
std::string lay_out(const std::vector<std::vector<std::string>>& lines, bool markdown) {
  std::vector<std::size_t> widths(lines[0].size());
  for (const auto& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  std::string text;
  for (std::size_t l = 0; l < lines.size(); ++l) {
    std::string line;
    for (std::size_t i = 0; i < widths.size(); ++i)
      line += fmt::format("{}{:<{}}", markdown ? (i ? " | " : "| ") : (i ? "  " : ""), lines[l][i], widths[i]);
    line = markdown ? line + " |" : line.substr(0, line.find_last_not_of(' ') + 1);
    text += line + '\n';
    if (l > 0) continue;
    std::string rule;
    for (const std::size_t w : widths) rule += markdown ? "|" + std::string(w + 2, '-') : std::string(w, '-') + "  ";
    text += rule + (markdown ? "|\n" : "\n");
  }
  return text;
}

int run(const Invocation& call) {
  const std::string format = call.json() ? "json" : call.arguments[operators_flags.format];
  const std::vector<std::string> known{"text", "json", "markdown"};
  if (std::find(known.begin(), known.end(), format) == known.end())
    fail(ExitCode::usage, "--format: unknown format '", format, "'", suggestion(format, known));
  const BackendSet backends = BackendSet::load();
  const std::vector<Row> rows = table(backends.all());
  if (format == "json") {
    Json::Array list;
    for (const Row& row : rows) {
      Json::Object kernels;
      for (std::size_t b = 0; b < row.kernels.size(); ++b) kernels.emplace_back(backends.all()[b]->name(), row.kernels[b]);
      list.push_back(
          Json::Object{{"operator", row.op}, {"opsets", row.opsets}, {"gradient", row.gradient}, {"kernels", std::move(kernels)}});
    }
    call.print(Json(std::move(list)));
    return 0;
  }
  std::vector<std::vector<std::string>> lines{{"operator", "changed in opset", "gradient"}};
  for (const Backend* b : backends.all()) lines[0].push_back(b->name() + " kernels");
  for (const Row& row : rows) {
    lines.push_back({row.op, row.opsets, row.gradient});
    lines.back().insert(lines.back().end(), row.kernels.begin(), row.kernels.end());
  }
  call.write(lay_out(lines, format == "markdown"));
  return 0;
}

}  // namespace

Command operators_command() {
  return {
      .name = "operators",
      .help = "list the ONNX operators that are supported",
      .usage = "[options]",
      .examples = "  tandem operators\n  tandem operators --format markdown > docs/operators.md\n",
      .options = {&operators_flags},
      .run = run,
  };
}

}  // namespace tandem
