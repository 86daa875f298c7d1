#include "kernels/cuda/cublas/gemm.h"

#include <algorithm>
#include <array>

namespace tandem::cuda {
namespace {

void check(cublasStatus_t status, std::string_view what) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(ExitCode::device, "cuBLASLt: ", what, ": ", cublasLtGetStatusString(status));
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::float32: return CUDA_R_32F;
    case DType::float64: return CUDA_R_64F;
    case DType::float16: return CUDA_R_16F;
    case DType::bfloat16: return CUDA_R_16BF;
    default: fail(ExitCode::device, "cuBLASLt: no products of ", dtype);
  }
}

// Matrices of 16 bits are summed in float32.
cublasComputeType_t compute_of(const Gemm& g) {
  if (g.dtype == DType::float64) return CUBLAS_COMPUTE_64F;
  return g.dtype == DType::float32 && g.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

void set_layout(cublasLtMatrixLayout_t& layout, cudaDataType_t type, std::int64_t rows, std::int64_t columns, std::int64_t batch, std::int64_t stride) {
  check(cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns), rows), "describe a matrix");
  const auto count = static_cast<std::int32_t>(batch);
  check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "describe a batch");
  check(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride), "describe a batch");
}

template <class T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t name, const T& value) {
  check(cublasLtMatmulDescSetAttribute(operation, name, &value, sizeof value), "describe a product");
}

struct Preference {
  cublasLtMatmulPreference_t native = nullptr;
  Preference() { check(cublasLtMatmulPreferenceCreate(&native), "make a preference"); }
  ~Preference() { cublasLtMatmulPreferenceDestroy(native); }
  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t name, const T& value) {
    check(cublasLtMatmulPreferenceSetAttribute(native, name, &value, sizeof value), "set a preference");
  }
};

}  // namespace

std::unique_ptr<GemmPlan> GemmPlan::make(const Gemm& g, int choice, cublasLtHandle_t handle) {
  std::unique_ptr<GemmPlan> p(new GemmPlan);
  p->handle_ = handle;
  p->float64_ = g.dtype == DType::float64;
  const cudaDataType_t type = type_of(g.dtype);
  check(cublasLtMatmulDescCreate(&p->operation_, compute_of(g), p->float64_ ? CUDA_R_64F : CUDA_R_32F), "describe a product");
  set(p->operation_, CUBLASLT_MATMUL_DESC_TRANSA, g.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(p->operation_, CUBLASLT_MATMUL_DESC_TRANSB, g.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(p->operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, g.epilogue);
  set_layout(p->a_, type, g.transpose_a ? g.k : g.m, g.transpose_a ? g.m : g.k, g.batch, g.stride_a);
  set_layout(p->b_, type, g.transpose_b ? g.n : g.k, g.transpose_b ? g.k : g.n, g.batch, g.stride_b);
  set_layout(p->d_, type, g.m, g.n, g.batch, g.stride_d);

  Preference preference;
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(gemm_workspace));
  for (const auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    preference.set(name, static_cast<std::uint32_t>(g.alignment));
  // Split sums that meet in place are added in whatever order they come.
  if (g.deterministic) preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_MASK & ~CUBLASLT_REDUCTION_SCHEME_INPLACE));
  std::array<cublasLtMatmulHeuristicResult_t, 8> found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, p->operation_, p->a_, p->b_, p->d_, p->d_, preference.native, static_cast<int>(found.size()), found.data(), &count);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0) return nullptr;
  p->algorithm_ = found[static_cast<std::size_t>(std::min(choice, count - 1))].algo;
  return p;
}

GemmPlan::~GemmPlan() {
  for (const cublasLtMatrixLayout_t layout : {a_, b_, d_})
    if (layout) cublasLtMatrixLayoutDestroy(layout);
  if (operation_) cublasLtMatmulDescDestroy(operation_);
}

void GemmPlan::set_bias(void* bias) { set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias); }

void GemmPlan::run(const void* a, const void* b, void* d, void* workspace, void* stream) const {
  const double one = 1, zero = 0;
  const float one32 = 1, zero32 = 0;
  const void* const alpha = float64_ ? static_cast<const void*>(&one) : &one32;
  const void* const beta = float64_ ? static_cast<const void*>(&zero) : &zero32;
  check(cublasLtMatmul(handle_, operation_, alpha, a, a_, b, b_, beta, d, d_, d, d_, &algorithm_, workspace, gemm_workspace, static_cast<cudaStream_t>(stream)), "run a product");
}

}  // namespace tandem::cuda
