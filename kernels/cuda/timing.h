// How long a kernel takes in the middle of a step.
#pragma once
#include "kernels/device.h"

namespace tandem::cuda {

// Seconds of one run: on noise (numbers that are all alike take less power, and so less time), started by a graph with nothing in
// between, over copies of the operands so many that twice the cache's bytes lie between two uses of one, 16 at most: operands
// smaller than that come from the cache in a step, too. Infinite where the kernel cannot be captured: no step with it could be.
// Fails (device) where it cannot be run.
Timing time_kernel(Device& device, const KernelDescription& description, std::int64_t cache_bytes);

}  // namespace tandem::cuda
