// An exchange of host memory for a GPU that exchanges with devices of other kinds.
#pragma once
#include "kernels/device.h"

namespace tandem::cuda {

// Copies what the member gives to pinned host memory, runs `exchange` there, and copies what it gets to the GPU. The thread that launches
// it waits for the stream, so that it cannot be recorded.
std::unique_ptr<Kernel> staged_exchange(std::unique_ptr<Kernel> exchange, const StagedBytes& bytes);

}  // namespace tandem::cuda
