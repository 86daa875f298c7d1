// What every device has to know of gradients of which each has a part.
#pragma once
#include <span>
#include <vector>

#include "planner/plan/plan.h"

namespace tandem {

// A gradient, and the sum of the step's batches before, where batches are accumulated; else absent.
struct SummedGradient {
  ValueId gradient, sum;
};

bool is_in_parts(const Value& value);

// What stands on every device for gradients in parts: a float32 that is
enum class PartsMeasure {
  norm,    // that of all of them together
  finite,  // 0 where all of them are finite, else NaN
};
// The gradients that are whole, and one measure of those that are in parts along each axis of a mesh. `scalars`: those of the step, by
// which a sum counts or not. Adds the sums that measures end in to `transfers`.
std::vector<SummedGradient> whole_or_measured(Graph& graph, std::span<const SummedGradient> gradients, ValueId scalars,
                                              PartsMeasure measure, std::vector<PlanTransfer>& transfers);

}  // namespace tandem
