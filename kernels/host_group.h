// Exchanges of the devices of several processes whose buffers are host memory, with the bits of in_process_group().
#pragma once
#include "kernels/device.h"

namespace tandem {

// The processes are spec.world's, as many devices each. Where a process has several, their threads meet first, and of a sum over all
// devices one of them speaks for all.
std::unique_ptr<CollectiveGroup> host_group(const GroupSpec& spec);

}  // namespace tandem
