// One matrix product through cuBLASLt, with what may follow it in the same kernel.
#pragma once
#include <cublasLt.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "graph/dtype.h"
#include "kernels/cuda/engine.h"

namespace tandem::cuda {

// Of the peak, of large products on tensor cores: measured on an H100 in 16 bits (docs/gpu-log.md). Slow ones have rows of no whole 16
// bytes.
inline constexpr double product_efficiency = 0.62, weights_efficiency = 0.45, slow_product_efficiency = 0.12;

inline constexpr std::int64_t gemm_workspace = 32 << 20;  // what NVIDIA recommends on Hopper

// Of 8-bit products, a and b: their types, and whether sums may be taken in fewer bits than float32 has. They are multiplied by scales that
// lie on the device (GemmPlan::set_scales).
struct GemmFp8 {
  DType a = DType::float8e4m3fn, b = DType::float8e4m3fn;
  bool fast = false;
};

// Column-major as cuBLAS has it: d[m,n] = op(a)[m,k] · op(b)[k,n], and `batch` of them at fixed distances (elements).
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;  // a is stored [k,m], b [n,k]
  std::int64_t batch = 1, stride_a = 0, stride_b = 0, stride_d = 0;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  DType dtype = DType::float32;    // of all matrices; with fp8 of d and the bias alone
  std::optional<GemmFp8> fp8 = {};
  bool tf32 = false, deterministic = false;
  int alignment = 256;  // bytes, of every matrix's address: that of buffers
  std::int64_t ld_b = 0;  // from column to column, where that is more than a column's numbers
};

// Prepared on the calling thread's device; runs with nothing left to choose.
class GemmPlan {
 public:
  GemmPlan(const Gemm& gemm, cublasLtHandle_t handle);
  GemmPlan(const GemmPlan&) = delete;
  GemmPlan& operator=(const GemmPlan&) = delete;

  // The heuristics' algorithms, best first, at most so many: an algorithm's number is the engine, its configuration's
  // attributes that differ from the default are the knobs. Those that choose() would refuse are left out.
  std::vector<Engine> engines(int most);
  // Before the first run, one of these. Fails (device) where this cuBLASLt has no such algorithm or it does not take the
  // product.
  void choose(const Engine& engine);
  bool choose_best();  // what the heuristics put first; false where they have none

  void set_bias(void* bias);  // read or, for a bias gradient, written
  void set_scales(const void* a, const void* b);  // a float32 each
  void set_aux(void* before);  // where Gelu is the epilogue: what it is of, laid out as d
  void run(const void* a, const void* b, void* d, void* workspace, void* stream) const;

 private:
  std::vector<cublasLtMatmulAlgo_t> heuristics(int most) const;
  const Gemm gemm_;
  cublasLtHandle_t handle_ = nullptr;
  struct Described {  // freed also where the plan's constructor fails
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
    ~Described();
  } described_;
  cublasLtMatmulAlgo_t algorithm_{};
};

}  // namespace tandem::cuda
