// Where a step's time goes.
#pragma once
#include <string_view>

#include "planner/plan/timeline.h"

namespace tandem {

// In seconds: kernels that arithmetic bounds, kernels that memory bounds, the launches of all, and waiting for links and for a pipeline's
// other stages.
struct StepBounds {
  double arithmetic = 0, memory = 0, latency = 0, waiting = 0;
  std::string_view largest() const;  // "arithmetic", "memory", "latency", "link"
};
StepBounds bounds_of(const Plan& plan);  // of the device that takes longest
// The same of an expanded plan whose timelines are known.
StepBounds bounds_of(const Plan& flat, const std::vector<Timeline>& lines);
// Which device takes longest: an index into Plan::devices.
std::size_t longest_of(const std::vector<Timeline>& lines);

}  // namespace tandem
