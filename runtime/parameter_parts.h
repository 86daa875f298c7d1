// Between the template's tensor and what a device keeps of it; never in a step.
#pragma once
#include <span>
#include <vector>

#include "planner/plan/plan.h"

namespace tandem {

// The part's bytes as the device keeps them, of the template's tensor.
std::vector<std::byte> cut_part(const PlanParameter& parameter, const ParameterPart& part, std::span<const std::byte> whole);
// Puts what the device keeps to its place in the template's tensor.
void put_part(const PlanParameter& parameter, const ParameterPart& part, std::span<const std::byte> kept, std::span<std::byte> whole);

}  // namespace tandem
