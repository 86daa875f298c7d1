// The forms in which a plan is shown or kept.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "planner/plan/plan.h"

namespace tandem {

struct PlanFormat {
  std::string_view name;
  std::string (*write)(const Plan&);
};
std::span<const PlanFormat> plan_formats();
const PlanFormat* find_plan_format(std::string_view name);  // null: there is none
std::string plan_format_names();                            // "text, summary, … or plan"

}  // namespace tandem
