// A step in two parts. Where the gradients of a plan's outputs are inputs (role gradient), whoever computes these runs the forward pass
// first: it gives the model's outputs and moves running statistics. The backward pass takes the gradients, and gives those of parameters
// and inputs.
#pragma once
#include <utility>

#include "planner/plan/plan.h"

namespace tandem {

enum class StepPart { forward, backward };
constexpr StepPart part_of(Phase p) { return p == Phase::prepare || p == Phase::forward ? StepPart::forward : StepPart::backward; }
bool has_parts(const Plan& plan);

// Each part as a plan of its own, with the inputs, outputs and arenas of the whole: what the first leaves in the arenas the second reads.
// The whole must be sound (verify); the second alone is not.
std::pair<Plan, Plan> parts_of(const Plan& plan);

}  // namespace tandem
