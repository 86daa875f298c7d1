// Describes a product to cuBLASLt and asks which of its algorithms can run it, and with what workspace.
#include "kernels/cuda/cublas/gemm.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/precision.h"

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
    case DType::float8e4m3fn: return CUDA_R_8F_E4M3;
    case DType::float8e5m2: return CUDA_R_8F_E5M2;
    default: fail(ExitCode::device, "cuBLASLt: no products of ", dtype);
  }
}

// Matrices of 16 bits are summed in float32.
cublasComputeType_t compute_of(const Gemm& g) {
  if (g.dtype == DType::float64) return CUBLAS_COMPUTE_64F;
  return g.dtype == DType::float32 && g.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}
cudaDataType_t a_type(const Gemm& g) { return type_of(g.fp8 ? g.fp8->a : g.dtype); }
cudaDataType_t b_type(const Gemm& g) { return type_of(g.fp8 ? g.fp8->b : g.dtype); }
cudaDataType_t scale_of(const Gemm& g) { return g.dtype == DType::float64 ? CUDA_R_64F : CUDA_R_32F; }

// How the sums of several parts of k may meet. In place, or in d's type, they would be rounded to 16 bits on the way. Of those in place
// cublasLt.h says that they come one after another, and not in which order.
std::uint32_t schemes_of(const Gemm& g) {
  if (is_16_bit(g.dtype)) return CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  return g.deterministic ? CUBLASLT_REDUCTION_SCHEME_MASK & ~CUBLASLT_REDUCTION_SCHEME_INPLACE : CUBLASLT_REDUCTION_SCHEME_MASK;
}

std::string types_of(const Gemm& g) { return g.fp8 ? concat(g.fp8->a, " and ", g.fp8->b) : to_string(g.dtype); }

// cuBLASLt composes epilogues of bits; it refuses a pointer that the epilogue has no use for.
constexpr int bias_bits = CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB | 16, aux_bit = 128;
bool has(cublasLtEpilogue_t epilogue, int bits) { return (epilogue & bits) != 0; }

void set_layout(cublasLtMatrixLayout_t& layout, cudaDataType_t type, std::int64_t rows, std::int64_t columns, std::int64_t batch,
                std::int64_t stride, std::int64_t ld = 0) {
  check(
      cublasLtMatrixLayoutCreate(&layout, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns), std::max(ld, rows)),
      "describe a matrix");
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

// What of an algorithm can be chosen, with the values it starts from. Attributes are 16 or 32 bits wide.
struct Knob {
  cublasLtMatmulAlgoConfigAttributes_t type;
  std::size_t bytes;
  std::int64_t initial;
};
constexpr Knob knobs[] = {
    {CUBLASLT_ALGO_CONFIG_TILE_ID, 4, CUBLASLT_MATMUL_TILE_UNDEFINED},
    {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4, 1},
    {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4, CUBLASLT_REDUCTION_SCHEME_NONE},
    {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4, 0},
    {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4, 0},
    {CUBLASLT_ALGO_CONFIG_STAGES_ID, 4, CUBLASLT_MATMUL_STAGES_UNDEFINED},
    {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2, CUBLASLT_MATMUL_INNER_SHAPE_UNDEFINED},
    {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2, CUBLASLT_CLUSTER_SHAPE_AUTO},
};

std::int64_t value_of(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t type, std::size_t bytes) {
  std::uint16_t narrow = 0;
  std::int32_t wide = 0;
  void* const value = bytes == 2 ? static_cast<void*>(&narrow) : &wide;
  check(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, type, value, bytes, nullptr), "read an algorithm's attribute");
  return bytes == 2 ? std::int64_t{narrow} : std::int64_t{wide};
}

Engine engine_of(const cublasLtMatmulAlgo_t& algorithm) {
  Engine e{.index = value_of(algorithm, CUBLASLT_ALGO_CONFIG_ID, 4), .knobs = {}};
  for (const Knob& k : knobs)
    if (const std::int64_t value = value_of(algorithm, k.type, k.bytes); value != k.initial) e.knobs.emplace_back(k.type, value);
  return e;
}

}  // namespace

GemmPlan::GemmPlan(const Gemm& g, cublasLtHandle_t handle) : gemm_(g), handle_(handle) {
  const cudaDataType_t type = type_of(g.dtype);
  check(cublasLtMatmulDescCreate(&described_.operation, compute_of(g), scale_of(g)), "describe a product");
  set(described_.operation, CUBLASLT_MATMUL_DESC_TRANSA, g.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(described_.operation, CUBLASLT_MATMUL_DESC_TRANSB, g.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(described_.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, g.epilogue);
  void* const aligned = reinterpret_cast<void*>(static_cast<std::uintptr_t>(g.alignment));  // heuristics read the alignment off it
  if (has(g.epilogue, bias_bits)) set_bias(aligned);
  if (has(g.epilogue, aux_bit)) {
    set(described_.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, g.m);
    set_aux(aligned);
  }
  if (g.fp8) {
    set(described_.operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(g.fp8->fast));
    set(described_.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(type));
    set_scales(aligned, aligned);  // heuristics want scales, and do not read them
  }
  set_layout(described_.a, a_type(g), g.transpose_a ? g.k : g.m, g.transpose_a ? g.m : g.k, g.batch, g.stride_a);
  set_layout(described_.b, b_type(g), g.transpose_b ? g.n : g.k, g.transpose_b ? g.k : g.n, g.batch, g.stride_b, g.ld_b);
  set_layout(described_.d, type, g.m, g.n, g.batch, g.stride_d);
}

std::vector<cublasLtMatmulAlgo_t> GemmPlan::heuristics(int most) const {
  Preference preference;
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(gemm_workspace));
  for (const auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    preference.set(name, static_cast<std::uint32_t>(gemm_.alignment));
  preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes_of(gemm_));
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle_, described_.operation, described_.a, described_.b, described_.d,
                                                               described_.d, preference.native, most, found.data(), &count);
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; ++i) algorithms.push_back(found[static_cast<std::size_t>(i)].algo);
  return algorithms;
}

std::vector<Engine> GemmPlan::engines(int most) {
  std::vector<Engine> engines;
  for (const cublasLtMatmulAlgo_t& algorithm : heuristics(most)) try {
      const Engine engine = engine_of(algorithm);
      choose(engine);
      if (std::find(engines.begin(), engines.end(), engine) == engines.end()) engines.push_back(engine);
    } catch (const Error&) {  // it has more to it than its attributes tell
    }
  return engines;
}

void GemmPlan::choose(const Engine& engine) {
  const auto refuse = [&](std::string_view why, cublasStatus_t status) {
    fail(ExitCode::device, "cuBLASLt ", cublasLtGetVersion(), ' ', why, ' ', to_string(engine), " for a product ", gemm_.m, 'x', gemm_.n,
         'x', gemm_.k, " of ", types_of(gemm_), " (", cublasLtGetStatusString(status),
         "): a plan made with another version, or for another device, is to be made again");
  };
  const cudaDataType_t type = type_of(gemm_.dtype);
  cublasLtMatmulAlgo_t algorithm{};
  if (const cublasStatus_t status = cublasLtMatmulAlgoInit(handle_, compute_of(gemm_), scale_of(gemm_), a_type(gemm_), b_type(gemm_), type,
                                                           type, static_cast<int>(engine.index), &algorithm);
      status != CUBLAS_STATUS_SUCCESS)
    refuse("has no algorithm", status);
  for (const auto& [type_of_knob, value] : engine.knobs) {
    const auto knob = std::find_if(std::begin(knobs), std::end(knobs), [&](const Knob& k) { return k.type == type_of_knob; });
    if (knob == std::end(knobs)) refuse("knows no such setting of algorithm", CUBLAS_STATUS_INVALID_VALUE);
    const auto narrow = static_cast<std::uint16_t>(value);
    const auto wide = static_cast<std::int32_t>(value);
    const void* const bytes = knob->bytes == 2 ? static_cast<const void*>(&narrow) : &wide;
    if (const cublasStatus_t status = cublasLtMatmulAlgoConfigSetAttribute(&algorithm, knob->type, bytes, knob->bytes);
        status != CUBLAS_STATUS_SUCCESS)
      refuse("cannot set up algorithm", status);
  }
  cublasLtMatmulHeuristicResult_t result{};
  cublasStatus_t status =
      cublasLtMatmulAlgoCheck(handle_, described_.operation, described_.a, described_.b, described_.d, described_.d, &algorithm, &result);
  if (status == CUBLAS_STATUS_SUCCESS && result.workspaceSize > static_cast<std::size_t>(gemm_workspace))
    status = CUBLAS_STATUS_NOT_SUPPORTED;
  if (status != CUBLAS_STATUS_SUCCESS) refuse("cannot run algorithm", status);
  algorithm_ = algorithm;
}

bool GemmPlan::choose_best() {
  const std::vector<cublasLtMatmulAlgo_t> found = heuristics(1);
  if (!found.empty()) algorithm_ = found[0];
  return !found.empty();
}

GemmPlan::Described::~Described() {
  for (const cublasLtMatrixLayout_t layout : {a, b, d})
    if (layout) cublasLtMatrixLayoutDestroy(layout);
  if (operation) cublasLtMatmulDescDestroy(operation);
}

void GemmPlan::set_bias(void* bias) {
  set(described_.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
}

void GemmPlan::set_scales(const void* a, const void* b) {
  set(described_.operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, a);
  set(described_.operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, b);
}

void GemmPlan::set_aux(void* before) {
  set(described_.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, before);
}

void GemmPlan::run(const void* a, const void* b, void* d, void* workspace, void* stream) const {
  const double one = 1, zero = 0;
  const float one32 = 1, zero32 = 0;
  const bool float64 = gemm_.dtype == DType::float64;
  const void* const alpha = float64 ? static_cast<const void*>(&one) : &one32;
  const void* const beta = float64 ? static_cast<const void*>(&zero) : &zero32;
  check(cublasLtMatmul(handle_, described_.operation, alpha, a, described_.a, b, described_.b, beta, d, described_.d, d, described_.d,
                       &algorithm_, workspace, gemm_workspace, static_cast<cudaStream_t>(stream)),
        "run a product");
}

}  // namespace tandem::cuda
