// A GPU as the runtime drives it: memory, streams, events, and capture of a step as a CUDA graph.
#pragma once
#include <memory>

#include "kernels/device.h"

namespace tandem::cuda {

// Several devices may share one GPU (logical devices): each has its own memory and streams.
std::unique_ptr<Device> open_device(int index);

}  // namespace tandem::cuda
