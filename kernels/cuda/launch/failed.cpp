// What a launch that CUDA refuses fails with.
#include <cuda_runtime_api.h>

#include "kernels/cuda/check.h"
#include "kernels/cuda/launch/launch.h"

namespace tandem::cuda {

void launch_failed(int status) {
  check(static_cast<cudaError_t>(status), "launch a kernel");
  fail(ExitCode::device, "CUDA: launch a kernel: status ", status);
}

}  // namespace tandem::cuda
