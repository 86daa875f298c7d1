// Sums over GPUs.
#pragma once
#include "kernels/device.h"

namespace tandem::cuda {

// NCCL where every rank has a GPU of its own; kernels of our own where the ranks of one process share a GPU.
std::unique_ptr<CollectiveGroup> create_group(const GroupSpec& spec);

}  // namespace tandem::cuda
