// Ranks of one process that share one GPU.
#pragma once
#include "kernels/collective.h"

namespace tandem::cuda {

std::unique_ptr<CollectiveGroup> local_group(int ranks, double timeout_seconds);

}  // namespace tandem::cuda
