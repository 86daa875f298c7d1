#include "cli/evaluation_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tandem {
namespace {

bool has(const std::vector<std::string>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// Widest first column that leaves a row in 60 columns.
constexpr std::size_t most_columns = 60;

std::string table_of(const ClassTable& t) {
  std::string text = fmt::format("  {:>8}  {:>9}  {:>7}  {:>7}  {:>7}  {:>9}\n", "class", "precision", "recall", "f1", "iou", "count");
  for (std::size_t c = 0; c < t.right.size(); ++c)
    text += fmt::format("  {:>8}  {:>9.4f}  {:>7.4f}  {:>7.4f}  {:>7.4f}  {:>9}\n", c, t.precision(c), t.recall(c), t.f1(c), t.iou(c),
                        t.support[c]);
  return text;
}

std::string matrix_of(const ClassTable& t) {
  const auto n = static_cast<std::size_t>(t.classes);
  if (t.confusion.empty()) return "  confusion: a yes or no of each class has no matrix, nor have more than 1000 classes\n";
  const std::int64_t most = *std::max_element(t.confusion.begin(), t.confusion.end());
  const std::size_t width = std::max(std::to_string(most).size(), std::to_string(n - 1).size()) + 1;
  std::string text = "  confusion: rows are labels, columns predictions\n";
  if (7 + n * width > most_columns) {  // the cells that hold something beside the diagonal, the fullest first
    std::vector<std::size_t> cells;
    for (std::size_t i = 0; i < n * n; ++i)
      if (t.confusion[i] > 0 && i / n != i % n) cells.push_back(i);
    std::sort(cells.begin(), cells.end(),
              [&](std::size_t a, std::size_t b) { return std::pair(-t.confusion[a], a) < std::pair(-t.confusion[b], b); });
    constexpr std::size_t shown = 20;
    text = fmt::format("  most confused of {} classes (all: --json)\n", n);
    for (std::size_t i = 0; i < std::min(shown, cells.size()); ++i)
      text += fmt::format("  {:>8} taken for {:>8}  {:>9}\n", cells[i] / n, cells[i] % n, t.confusion[cells[i]]);
    return text;
  }
  text += fmt::format("  {:>5}", "");
  for (std::size_t c = 0; c < n; ++c) text += fmt::format("{:>{}}", c, width);
  for (std::size_t r = 0; r < n; ++r) {
    text += fmt::format("\n  {:>5}", r);
    for (std::size_t c = 0; c < n; ++c) text += fmt::format("{:>{}}", t.confusion[r * n + c], width);
  }
  return text + "\n";
}

}  // namespace

std::string text_of(const Evaluation& e, const std::vector<std::string>& metrics) {
  std::string text;
  for (const auto& [name, value] : e.metrics) text += fmt::format("  {:<30}  {:>12.6g}\n", name, value);
  for (const auto& [output, table] : e.tables) {
    if (!output.empty() && (has(metrics, "per-class") || has(metrics, "confusion"))) text += concat(output, ":\n");
    if (has(metrics, "per-class")) text += table_of(table);
    if (has(metrics, "confusion")) text += matrix_of(table);
  }
  return text;
}

}  // namespace tandem
