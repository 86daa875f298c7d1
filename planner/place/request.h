// What somebody has asked of a placement, held against the model that it is for.
#pragma once
#include "planner/options.h"

namespace tandem {

// Inputs of a batch's samples, one row each.
std::vector<ValueId> inputs_of_samples(const Graph& model, std::int64_t batch);

// The request as pass place takes it: mesh axes along which the inputs of samples are split are marked so. Fails (usage) where a group is
// no mesh of its devices, a name is none of the model's, a value has no such axis, or inputs of samples do not lie alike.
PlacementRequest checked(PlacementRequest request, const Graph& model, const CompileOptions& options);

}  // namespace tandem
