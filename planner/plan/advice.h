// What would make a plan's step shorter or smaller, each with the option to try and the most that it can save by the plan's own numbers.
#pragma once
#include <string>
#include <vector>

#include "planner/plan/bounds.h"

namespace tandem {

struct Advice {
  std::string option;            // with its value: "--micro-batches 16"
  double saves_seconds = 0;      // at most, of a step; of a larger batch: of the time that as many samples take
  std::int64_t saves_bytes = 0;  // at most, of the fullest device
  std::string reason;            // where that number comes from
};
// The most first, measured by its share of the step or of the fullest device's memory; what would save less than 1% is left out.
std::vector<Advice> advice_for(const Plan& plan, const TimedPlan& timed);

}  // namespace tandem
