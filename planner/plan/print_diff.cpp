// What differs between two plans, for people and for programs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "base/units.h"
#include "planner/plan/diff.h"
#include "planner/plan/page_table.h"
#include "planner/plan/plan_file.h"
#include "planner/plan/print.h"

namespace tandem {
namespace {

using Align = TextTable::Align;

constexpr std::string_view unit_names[] = {"text", "bytes", "seconds", "count"};
constexpr std::string_view change_names[] = {"changed", "removed", "added"};
constexpr std::string_view change_marks[] = {"", "-", "+"};

std::string text_of(const Json& value, DiffUnit unit) {
  if (value.is_null()) return "";
  switch (unit) {
    case DiffUnit::text: return value.text();
    case DiffUnit::bytes: return text_of_bytes(value.integer());
    case DiffUnit::seconds: return text_of_seconds(value.number());
    case DiffUnit::count: return value.number() == std::floor(value.number()) ? text_of_integer(std::llround(value.number()))
                                                                         : text_of_rate(value.number());
  }
  return "";
}

// "+12.5%"
std::string by(const DiffRow& row) {
  if (row.unit == DiffUnit::text || row.before.is_null() || row.after.is_null() || row.before.number() == 0) return "";
  return fmt::format("{:+.1f}%", 100 * (row.after.number() / row.before.number() - 1));
}

// Names of two plans as heads of columns: as short as they still differ.
std::pair<std::string, std::string> heads(std::string a, std::string b) {
  const auto file = [](const std::string& path) { return path.substr(path.find_last_of('/') + 1); };
  if (file(a) != file(b)) a = file(a), b = file(b);
  if (a == b) return {"first", "second"};
  return {shorten(a, 24), shorten(b, 24)};
}

constexpr std::size_t most_rows = 40;  // of a table

// Shapes change with the batch, of all steps at once: their number is told.
bool of_shape(const DiffRow& r) { return r.what.ends_with("shape"); }

std::string text_of(const DiffTable& table, const std::pair<std::string, std::string>& head) {
  std::vector<DiffRow> rows = table.rows;
  const std::size_t shapes = std::erase_if(rows, of_shape);
  PageTable text({{""}, {"name"}, {"kind"}, {"what"}, {head.first}, {head.second}, {"by", Align::right}});
  for (std::size_t i = 0; i < std::min(most_rows, rows.size()); ++i) {
    const DiffRow& r = rows[i];
    const bool repeated = i > 0 && rows[i - 1].name == r.name && rows[i - 1].kind == r.kind && rows[i - 1].change == r.change;
    text.add({std::string(change_marks[static_cast<int>(r.change)]), repeated ? "" : r.name, repeated ? "" : r.kind, r.what,
              text_of(r.before, r.unit), text_of(r.after, r.unit), by(r)});
  }
  std::string out = concat(table.title, table.summary.empty() ? "" : concat(": ", table.summary), "\n", text.text("  "));
  if (rows.size() > most_rows) out += concat("  and ", rows.size() - most_rows, " rows more, which the JSON has\n");
  if (shapes > 0) out += concat("  and ", shapes, " other shapes, which the JSON has\n");
  return out;
}

std::string line_of(const NamedPlan& a, const NamedPlan& b, const PlanDiff& diff) {
  if (!diff.equal) return concat("Plans ", a.name, " and ", b.name, " differ\n");
  const auto& devices = a.plan.devices.size();
  return concat("Plans ", a.name, " and ", b.name, " are equal: steps, kernels, memory and exchanges of ", devices,
                devices == 1 ? " device\n" : " devices\n");
}

std::string text_of_diff(const NamedPlan& a, const NamedPlan& b, const PlanDiff& diff) {
  std::string out = line_of(a, b, diff);
  for (const DiffTable& table : diff.tables) out += "\n" + text_of(table, heads(a.name, b.name));
  return printable(out, Lines::kept);
}

Json value_of(const NamedPlan& p) {
  return Json::Object{{"name", p.name}, {"model", p.plan.model}, {"hash", hash_of(p.plan)}, {"seconds", p.plan.seconds}};
}

Json value_of(const DiffRow& r) {
  return Json::Object{{"change", change_names[static_cast<int>(r.change)]},
                      {"name", r.name},
                      {"kind", r.kind},
                      {"what", r.what},
                      {"before", r.before},
                      {"after", r.after},
                      {"unit", unit_names[static_cast<int>(r.unit)]}};
}

Json value_of(const NamedPlan& a, const NamedPlan& b, const PlanDiff& diff) {
  Json::Array tables;
  for (const DiffTable& t : diff.tables) {
    Json::Array rows;
    for (const DiffRow& r : t.rows) rows.push_back(value_of(r));
    tables.push_back(Json::Object{{"title", t.title}, {"summary", t.summary}, {"rows", std::move(rows)}});
  }
  return Json::Object{{"schema", 1}, {"equal", diff.equal}, {"before", value_of(a)}, {"after", value_of(b)}, {"tables", std::move(tables)}};
}

std::string json_of_diff(const NamedPlan& a, const NamedPlan& b, const PlanDiff& diff) { return value_of(a, b, diff).dump() + "\n"; }

std::string html_of_diff(const NamedPlan& a, const NamedPlan& b, const PlanDiff& diff) {
  const std::string title = concat("Plans ", shorten(a.name, 60), " and ", shorten(b.name, 60));
  const Plan* const plans[] = {&a.plan, &b.plan};
  return page_of(title, text_of_diff(a, b, diff), plans, value_of(a, b, diff).dump());
}

constexpr DiffFormat diff_formats[] = {{"text", text_of_diff}, {"json", json_of_diff}, {"html", html_of_diff}};

}  // namespace

const DiffFormat* find_diff_format(std::string_view name) {
  const DiffFormat* const found = std::ranges::find(diff_formats, name, &DiffFormat::name);
  return found == std::end(diff_formats) ? nullptr : found;
}

}  // namespace tandem
