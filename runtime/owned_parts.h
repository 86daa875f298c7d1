// Which rank of several writes what of the parameters, so that all of them is written, and nothing twice.
#pragma once
#include <vector>

#include "planner/plan/plan.h"

namespace tandem {

struct OwnedPart {
  const PlanParameter* parameter = nullptr;  // of the plan, which outlives it
  ParameterPart part;                        // what a device of that rank keeps
  int rank = 0;
};

// Of what a checkpoint holds: weights, running statistics and optimizer state, in the plan's order; the parts of one make it whole. What
// several ranks keep is given to the one that has the fewest bytes so far. All ranks get the same.
std::vector<OwnedPart> owned_parts(const Plan& plan, int ranks);

}  // namespace tandem
