// What --profile tells of a step.
#pragma once
#include <string>

#include "cli/command.h"
#include "planner/plan/timeline.h"

namespace tandem {

// Writes the trace of what was planned and measured, and tells the slowest kernels of the device that took longest, beside the plan.
void report_profile(const Invocation& call, const std::string& file, const Plan& plan, const std::vector<Timeline>& measured);

}  // namespace tandem
