// Ranks with a GPU each, in this process and perhaps others.
#pragma once
#include "kernels/device.h"

namespace tandem::cuda {

std::unique_ptr<CollectiveGroup> nccl_group(const GroupSpec& spec);

}  // namespace tandem::cuda
