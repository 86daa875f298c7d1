// When each step is estimated to run: each stream's one after another, no sooner than what they wait for has ended, and an
// exchange when all of its members have come. The one place that says how long a step of the plan takes.
#pragma once
#include <vector>

#include "planner/plan/plan.h"

namespace tandem {

struct Timeline {
  IdVector<StepId, double> begins, ends;  // in seconds
  int streams = 0;
  double seconds = 0;  // of all
};
std::vector<Timeline> timelines_of(const Plan& plan);  // by device; of a plan without schedules (expanded)
double seconds_of(const Plan& plan);                   // of a step
// The plan, or, where it has schedules, what they come to.
Plan written_out(const Plan& plan);
// While micro-batches are under way, the share of the devices' time, all together, in which none of their kernels runs: 0 to 1. Of an
// expanded plan.
double bubble_of(const Plan& expanded, const std::vector<Timeline>& lines);


// A plan written out, with what its devices do when.
struct TimedPlan {
  ExpandedPlan flat;
  std::vector<Timeline> lines;           // by device
  std::vector<std::vector<int>> alike;   // devices of one program whose timelines are the same; each ascending, by the first of each
};
TimedPlan timed(const Plan& plan);
// The plan's own step that a written out one is.
inline StepId own_step(const TimedPlan& timed, ProgramId program, StepId step) {
  return timed.flat.step_of[program][at(step.index)];
}

}  // namespace tandem
