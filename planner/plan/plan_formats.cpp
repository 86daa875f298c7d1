#include "planner/plan/plan_formats.h"

#include <algorithm>

#include "planner/plan/plan_file.h"
#include "planner/plan/trace.h"

namespace tandem {
namespace {

constexpr PlanFormat formats[] = {
    {"text", [](const Plan& p) { return text_of_plan(p, true); }},
    {"summary", [](const Plan& p) { return text_of_plan(p, false); }},
    {"json", json_of},
    {"dot", dot_of},
    {"mermaid", mermaid_of},
    {"svg", svg_of},
    {"html", html_of},
    {"perfetto", trace_of},
    {"plan", serialize},
};

}  // namespace

std::span<const PlanFormat> plan_formats() { return formats; }

const PlanFormat* find_plan_format(std::string_view name) {
  const PlanFormat* const found = std::ranges::find(formats, name, &PlanFormat::name);
  return found == std::end(formats) ? nullptr : found;
}

std::string plan_format_names() {
  std::string names;
  for (const PlanFormat& f : formats) names += concat(names.empty() ? "" : &f == std::end(formats) - 1 ? " or " : ", ", f.name);
  return names;
}

}  // namespace tandem
