// Reductions as other kernels use them.
#pragma once
#include <optional>

#include "kernels/cuda/bodies/reduce.h"
#include "kernels/cuda/native/describe.h"

namespace tandem::cuda {

struct ReductionPlan {
  std::int64_t workspace = 0;
  std::function<Launches(const std::byte* x, std::byte* y, std::byte* workspace)> bind;
};

// y = op over `axes` of x; y is packed in the order of x's kept axes or in its own layout where it keeps x's rank.
// Nothing for types that there are no kernels for, and for more elements than indexes count.
std::optional<ReductionPlan> plan_reduction(Reduce op, bool mean, const Operand& x, const std::vector<std::int64_t>& axes, const Operand& y,
                                            const KernelOptions& options);
// Sums of dy[N,C,...] over all axes but 1: the gradient of a bias.
std::optional<ReductionPlan> plan_channel_sum(const Operand& dy, const KernelOptions& options);

}  // namespace tandem::cuda
