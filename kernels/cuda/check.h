// CUDA's status codes as errors that say what was tried.
#pragma once
#include <cuda_runtime_api.h>

#include "base/error.h"

namespace tandem::cuda {

inline void check(cudaError_t status, std::string_view what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // a status that is not sticky must not show up in the next call
  fail(ExitCode::device, "CUDA: ", what, ": ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
}

}  // namespace tandem::cuda
