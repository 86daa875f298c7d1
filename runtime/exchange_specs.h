// What a plan says of its exchanges, as the group that runs them takes it.
#pragma once
#include <vector>

#include "kernels/collective.h"
#include "planner/plan/plan.h"

namespace tandem {

// By exchange; they are numbered from `first_channel` on.
std::vector<ExchangeSpec> exchange_specs(const Plan& plan, int first_channel);

}  // namespace tandem
