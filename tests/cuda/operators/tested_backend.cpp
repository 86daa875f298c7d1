// The node tests on CUDA's kernels: on a GPU where there is one, else those of our own on the host's emulation.
#include <gtest/gtest.h>

#include "tests/cuda/host_backend.h"
#include "tests/operators/run_graph.h"

namespace tandem::test {

TestedBackend tested_backend() {
  std::string reason;
  const Backend* const module = cuda::cuda_module(reason);
  if (module && module->unusable().empty()) return {module, [](const Backend*) {}};
  return {new cuda::HostCudaBackend(false), [](const Backend* backend) {
            EXPECT_TRUE(static_cast<const cuda::HostCudaBackend*>(backend)->devices.guards_whole()) << "a kernel wrote outside an arena";
            delete backend;
          }};
}

}  // namespace tandem::test
