#include "cli/loss_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/spec.h"
#include "cli/loss_flags.h"
#include "planner/loss/losses.h"
#include "trainer/measure/scores.h"

namespace tandem {
namespace {

bool has(const std::vector<std::string>& list, std::string_view name) { return std::find(list.begin(), list.end(), name) != list.end(); }

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

std::string names_of_losses(const FlagRow&) { return loss_names(); }
std::string names_of_metrics(const FlagRow&) { return metric_names(); }

void read_loss(const Arguments& a, ModelOptions& o) {
  o.plan.loss.name = a[loss_flags.loss];
  parse_loss(o.plan.loss.name);
  o.plan.loss.on = a[loss_flags.loss_on];
  if (const auto axis = a[loss_flags.class_axis]) o.plan.loss.class_axis = static_cast<int>(*axis);
  if (const auto index = a[loss_flags.ignore_index]) o.plan.loss.ignore_index = *index;
  o.plan.loss.shift_labels = a[loss_flags.shift_labels];
}

void read_distillation(const Arguments& a, ModelOptions& o) {
  const auto temperature = a[target_flags.temperature], share = a[target_flags.teacher_weight];
  o.teacher = a[target_flags.teacher];
  if (!o.teacher.empty()) {
    Distillation& d = o.plan.loss.distillation.emplace();
    d.temperature = temperature.value_or(d.temperature);
    d.weight = share.value_or(d.weight);
  } else if (temperature || share) {
    fail(ExitCode::usage, (temperature ? target_flags.temperature : target_flags.teacher_weight).flag(), " needs ",
         target_flags.teacher.flag());
  }
  o.plan.loss.smoothing = a[target_flags.label_smoothing];
  if (!a[target_flags.sample_weights]) o.plan.loss.sample_weights = false;
}

std::vector<std::string> metrics_of(const Arguments& a) {
  std::vector<std::string> names = a[metric_flags.metrics];
  for (const std::string& file : a[metric_flags.metric]) {
    if (!file.ends_with(".onnx"))
      fail(ExitCode::usage, "--metric ", file, ": expected a file that ends in .onnx; --metrics takes the names of others");
    names.push_back(file);
  }
  check_metrics(names);
  return names;
}

Json json_of(const Evaluation& e) {
  Json::Object metrics, tables;
  for (const auto& [name, value] : e.metrics) metrics.emplace_back(name, value);
  for (const auto& [output, t] : e.tables) {
    Json::Array classes, confusion;
    for (std::size_t c = 0; c < t.right.size(); ++c)
      classes.push_back(Json::Object{
          {"precision", t.precision(c)}, {"recall", t.recall(c)}, {"f1", t.f1(c)}, {"iou", t.iou(c)}, {"count", t.support[c]}});
    const auto n = static_cast<std::ptrdiff_t>(t.classes);
    for (auto row = t.confusion.begin(); row != t.confusion.end(); row += n) confusion.push_back(std::vector<std::int64_t>(row, row + n));
    tables.emplace_back(output, Json::Object{{"classes", std::move(classes)}, {"confusion", std::move(confusion)}});
  }
  return Json::Object{{"metrics", std::move(metrics)}, {"tables", std::move(tables)}};
}

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
