// The CUDA runtime as far as a device calls it, for tests without a GPU: what it was asked for, and what it refuses.
#pragma once
#include <cuda_runtime_api.h>

#include <cstring>
#include <vector>

namespace tandem::test::runtime {

struct Calls {
  bool memory_left = true, registrable = true, device_lost = false;
  int allocated = 0, summed = 0, graphs = 0, executables = 0, launches = 0;
  int devices = 1;
  unsigned event_flags = 0;
  unsigned long long graph_flags = 0;
  cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
  std::vector<int> priorities;  // of streams
};
Calls& calls();

}  // namespace tandem::test::runtime
