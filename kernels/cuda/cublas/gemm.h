// One matrix product through cuBLASLt, with what may follow it in the same kernel.
#pragma once
#include <cublasLt.h>

#include <memory>
#include <optional>

#include "kernels/cuda/kernels.h"

namespace tandem::cuda {

inline constexpr std::int64_t gemm_workspace = 32 << 20;  // what NVIDIA recommends on Hopper

// Column-major as cuBLAS has it: d[m,n] = op(a)[m,k] · op(b)[k,n], and `batch` of them at fixed distances (elements).
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;  // a is stored [k,m], b [n,k]
  std::int64_t batch = 1, stride_a = 0, stride_b = 0, stride_d = 0;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  DType dtype = DType::float32;
  bool tf32 = false, deterministic = false;
  int alignment = 16;  // bytes, of every matrix's address
};

// Prepared on the calling thread's device; runs with nothing left to choose.
class GemmPlan {
 public:
  // `choice`: which of the heuristics' algorithms, best 0; the last one where there are fewer.
  // Nothing where cuBLASLt has no algorithm for it.
  static std::unique_ptr<GemmPlan> make(const Gemm& gemm, int choice, cublasLtHandle_t handle);
  ~GemmPlan();
  GemmPlan(const GemmPlan&) = delete;
  GemmPlan& operator=(const GemmPlan&) = delete;

  void set_bias(void* bias);  // read or, for a bias gradient, written
  void run(const void* a, const void* b, void* d, void* workspace, void* stream) const;

 private:
  GemmPlan() = default;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, d_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  bool float64_ = false;
};

}  // namespace tandem::cuda
