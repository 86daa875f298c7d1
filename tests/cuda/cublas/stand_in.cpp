#include "tests/cuda/cublas/stand_in.h"

#include <algorithm>
#include <cstring>

namespace tandem::test::cublas {
namespace {

constexpr std::size_t untold_at = 15;  // words: attributes, then what none tells

std::array<std::int32_t, 16> words_of(const cublasLtMatmulAlgo_t& algo) {
  std::array<std::int32_t, 16> words;
  std::memcpy(words.data(), algo.data, sizeof words);
  return words;
}
void put(cublasLtMatmulAlgo_t& algo, std::size_t word, std::int32_t value) {
  std::memcpy(reinterpret_cast<char*>(algo.data) + 4 * word, &value, sizeof value);
}

cublasLtMatmulAlgo_t algo_of(const Algorithm& a) {
  cublasLtMatmulAlgo_t algo{};
  for (std::size_t i = 0; i < a.attributes.size(); ++i) put(algo, i, a.attributes[i]);
  put(algo, untold_at, a.untold);
  return algo;
}

// The real library takes a null pointer for one of any alignment, and none that its epilogue has no use for.
bool takes(const Algorithm& a, cublasLtMatmulDesc_t operation) {
  const auto epilogue = static_cast<int>(operation->data[CUBLASLT_MATMUL_DESC_EPILOGUE]);
  const auto fits = [&](cublasLtMatmulDescAttributes_t name, bool wanted) {
    std::uint64_t address = 0;
    std::memcpy(&address, &operation->data[name], sizeof address);
    return wanted ? address != 0 && address % a.alignment == 0 : address == 0;
  };
  constexpr int bias = CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_BGRADB, aux_bit = CUBLASLT_EPILOGUE_GELU_AUX & CUBLASLT_EPILOGUE_DGELU;
  const bool aux = (epilogue & aux_bit) != 0;
  return (epilogue == CUBLASLT_EPILOGUE_DEFAULT || a.epilogues) && fits(CUBLASLT_MATMUL_DESC_BIAS_POINTER, (epilogue & bias) != 0) &&
         fits(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux) && (!aux || operation->data[CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD] % 8 == 0);
}

std::uint64_t word_of(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t name) {
  std::uint64_t word = 0;
  std::memcpy(&word, &operation->data[name], sizeof word);
  return word;
}

// What the documentation of cublasLtMatmul() wants of products of 8 bits: both matrices along what is summed over, m and k multiples of 16,
// not two of E5M2, a result of 16 or 32 bits, and scales.
bool is_8_bit(std::uint64_t type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }
bool takes_8_bits(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t d) {
  if (!is_8_bit(a->data[0]) && !is_8_bit(b->data[0])) return true;
  const bool transposed =
      operation->data[CUBLASLT_MATMUL_DESC_TRANSA] == CUBLAS_OP_T && operation->data[CUBLASLT_MATMUL_DESC_TRANSB] == CUBLAS_OP_N;
  return is_8_bit(a->data[0]) && is_8_bit(b->data[0]) && transposed && a->data[1] % 16 == 0 && a->data[2] % 16 == 0 &&
         a->data[1] == b->data[1] && !(a->data[0] == CUDA_R_8F_E5M2 && b->data[0] == CUDA_R_8F_E5M2) && d->data[0] == CUDA_R_16BF &&
         word_of(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER) != 0 && word_of(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER) != 0;
}

bool wide(cublasLtMatmulAlgoConfigAttributes_t attribute) {
  return attribute != CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID && attribute != CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID;
}

template <class T>
cublasStatus_t create(T** made) {
  *made = new T{};
  ++library().live;
  return CUBLAS_STATUS_SUCCESS;
}
template <class T>
cublasStatus_t destroy(const T* made) {
  delete made;
  --library().live;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

Library& library() {
  static Library one;
  return one;
}

Algorithm algorithm(std::int32_t number, std::int32_t tile, std::int32_t splits, std::int32_t cluster) {
  Algorithm a;
  a.attributes[CUBLASLT_ALGO_CONFIG_ID] = number;
  a.attributes[CUBLASLT_ALGO_CONFIG_TILE_ID] = tile;
  a.attributes[CUBLASLT_ALGO_CONFIG_SPLITK_NUM] = splits;
  a.attributes[CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID] = cluster;
  return a;
}

}  // namespace tandem::test::cublas

using namespace tandem::test::cublas;

extern "C" {

size_t cublasLtGetVersion() { return 130100; }
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : status == CUBLAS_STATUS_INVALID_VALUE ? "invalid value" : "not supported";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t, cudaDataType_t) { return create(desc); }
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return destroy(desc); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name, const void* value,
                                              size_t bytes) {
  std::memcpy(&desc->data[name], value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows, uint64_t columns, int64_t) {
  const cublasStatus_t status = create(layout);
  (*layout)->data[0] = type;
  (*layout)->data[1] = rows;
  (*layout)->data[2] = columns;
  return status;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return destroy(layout); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, const void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  const cublasStatus_t status = create(preference);
  (*preference)->data[1] = CUBLASLT_REDUCTION_SCHEME_MASK;
  return status;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) { return destroy(preference); }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t name,
                                                    const void* value, size_t) {
  if (name == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES) std::memcpy(&preference->data[0], value, sizeof(std::uint32_t));
  if (name == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) std::memcpy(&preference->data[1], value, sizeof(std::uint32_t));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a_layout,
                                              cublasLtMatrixLayout_t b_layout, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d_layout,
                                              cublasLtMatmulPreference_t preference, int most, cublasLtMatmulHeuristicResult_t results[],
                                              int* count) {
  ++library().asked;
  *count = 0;
  for (const Algorithm& a : library().algorithms)
    if (takes(a, operation) && takes_8_bits(operation, a_layout, b_layout, d_layout) &&
        a.alignment <= static_cast<std::uint32_t>(preference->data[0]) && *count < most &&
        (static_cast<std::uint64_t>(a.attributes[CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME]) & ~preference->data[1]) == 0)
      results[(*count)++].algo = algo_of(a);
  return *count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t, cublasComputeType_t, cudaDataType_t, cudaDataType_t, cudaDataType_t, cudaDataType_t,
                                      cudaDataType_t, int number, cublasLtMatmulAlgo_t* algo) {
  const auto& all = library().algorithms;
  if (std::none_of(all.begin(), all.end(), [&](const Algorithm& a) { return a.attributes[0] == number; }))
    return CUBLAS_STATUS_INVALID_VALUE;
  *algo = algo_of(algorithm(number, 0));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo, cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, size_t bytes, size_t*) {
  if (bytes != (wide(attribute) ? 4 : 2)) return CUBLAS_STATUS_INVALID_VALUE;
  const std::int32_t word = words_of(*algo)[attribute];
  std::memcpy(value, &word, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* algo, cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  if (attribute == CUBLASLT_ALGO_CONFIG_ID || bytes != (wide(attribute) ? 4 : 2)) return CUBLAS_STATUS_INVALID_VALUE;
  std::int32_t word = 0;
  std::memcpy(&word, value, bytes);
  put(*algo, attribute, word);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a_layout,
                                       cublasLtMatrixLayout_t b_layout, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d_layout,
                                       const cublasLtMatmulAlgo_t* algo, cublasLtMatmulHeuristicResult_t* result) {
  for (const Algorithm& a : library().algorithms)
    if (words_of(algo_of(a)) == words_of(*algo) && takes(a, operation) && takes_8_bits(operation, a_layout, b_layout, d_layout)) {
      result->workspaceSize = a.workspace;
      return CUBLAS_STATUS_SUCCESS;
    }
  return CUBLAS_STATUS_NOT_SUPPORTED;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void*, const void* a, cublasLtMatrixLayout_t,
                              const void* b, cublasLtMatrixLayout_t, const void*, const void*, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t* algo, void*, size_t, cudaStream_t) {
  for (const Algorithm& known : library().algorithms)
    if (words_of(algo_of(known)) == words_of(*algo))
      for (const void* matrix : {a, b, static_cast<const void*>(d)})
        library().misaligned += reinterpret_cast<std::uintptr_t>(matrix) % known.alignment != 0;
  library().scales = {word_of(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER), word_of(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER)};
  library().fast = (word_of(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM) & 0xff) != 0;
  library().ran = words_of(*algo)[0];
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
