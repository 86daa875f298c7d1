// Options of commands that can run a plan which was made before.
#pragma once
#include "options/flag.h"

namespace tandem {

struct PlanFileFlags : FlagGroup {
  constexpr PlanFileFlags() : FlagGroup("plans made before") {}
  Flag<std::string> plan{*this, "plan", "FILE.plan", "", "run this plan (tandem plan --format plan makes one): devices, batch, precision, loss and optimizer are the plan's; what does not fit the model, the data or the devices here is an error", {.scope = FlagScope::call, .field = "plan_file"}};
  Switch replan{*this, "replan", off, "where the plan does not fit make it anew, with its options and those given in their place", {.scope = FlagScope::call}};
};
inline constexpr PlanFileFlags plan_file_flags;

}  // namespace tandem
