// What launch() does, for the .cu files.
#pragma once
#include "kernels/cuda/bodies/thread.h"
#include "kernels/cuda/launch/launch.h"

#if defined(TANDEM_NO_LAUNCH)
#include "base/error.h"
#elif !defined(__CUDACC__)
#include "kernels/cuda/emulation/launch.h"
#endif

namespace tandem::cuda {

#if defined(__CUDACC__)
template <class Body>
__global__ void __launch_bounds__(Body::threads) run_body(const __grid_constant__ Body body) {
  body(GpuThread{});
}

template <class Body>
void launch(const Body& body, std::int64_t blocks, void* stream) {
  static_assert(sizeof(Body) <= 32764, "more than a kernel's argument may hold");
  if (blocks == 0) return;
  run_body<Body><<<static_cast<unsigned>(blocks), Body::threads, 0, static_cast<cudaStream_t>(stream)>>>(body);
  if (const cudaError_t status = cudaPeekAtLastError(); status != cudaSuccess) launch_failed(status);
}
#elif defined(TANDEM_NO_LAUNCH)
template <class Body>
void launch(const Body&, std::int64_t, void*) {
  fail(ExitCode::device, "a kernel of a device that is only described cannot run");
}
#else
template <class Body>
void launch(const Body& body, std::int64_t blocks, void*) {
  static_assert(sizeof(Body) <= 32764, "more than a kernel's argument may hold");
  emulation::run(body, blocks);
}
#endif

}  // namespace tandem::cuda
