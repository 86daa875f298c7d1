// What a plan says of its exchanges, as the group that runs them takes it.
#pragma once
#include <span>
#include <vector>

#include "kernels/collective.h"
#include "planner/plan/plan.h"

namespace tandem {

// A row of an exchange after the other, numbered from `first_channel`.
std::vector<ExchangeSpec> exchange_specs(const Plan& plan, int first_channel);
// By exchange of the plan: the row in which the device is; null where it is in none. `all`: what exchange_specs gives of the plan.
std::vector<const ExchangeSpec*> specs_of(const Plan& plan, std::span<const ExchangeSpec> all, int device);

}  // namespace tandem
