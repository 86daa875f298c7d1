// Which of cuBLASLt's algorithms runs a product, and how a kernel's name says so.
#pragma once
#include <optional>

#include "kernels/cuda/cublas/gemm.h"
#include "kernels/kernel.h"

namespace tandem::cuda {

struct GemmWay {
  std::string kernel;            // "PREFIX.eng66.k1=20", "PREFIX.apart.eng66", "PREFIX.heuristic"
  bool apart = false;            // what the epilogue does is left to kernels of our own
  std::optional<Engine> engine;  // absent: what the heuristics put first on the device that loads the plan
};

// The ways to run a product, best first: several where they will be timed. `handle` is that of a device at hand, whose
// algorithms can be named; null where there is none. Only the way of the request's kernel where it names one.
std::vector<GemmWay> ways_to_run(const Gemm& gemm, const std::string& prefix, const KernelRequest& request, cublasLtHandle_t handle);

struct PreparedGemm {
  std::unique_ptr<GemmPlan> plan;
  bool apart = false;  // as the way says, or because the heuristics have nothing with the epilogue
};
// Fails (device) naming the kernel.
PreparedGemm prepare(const Gemm& gemm, const GemmWay& way, cublasLtHandle_t handle);

}  // namespace tandem::cuda
