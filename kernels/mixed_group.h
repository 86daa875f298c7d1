// Exchanges among devices of several backends go by way of host memory.
#pragma once
#include "kernels/device.h"

namespace tandem {

// `backends`: of this process's devices, in their order. Sums have the bits of in_process_group().
std::unique_ptr<CollectiveGroup> mixed_group(const GroupSpec& spec, std::vector<const Backend*> backends);

}  // namespace tandem
