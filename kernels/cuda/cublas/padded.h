// Products with a matrix whose rows are no multiple of 16 bytes, such as scores over 50257 words in 16 bits: cuBLASLt's fast algorithms
// do not take it. Part by part it passes through memory whose rows are.
#pragma once
#include "kernels/cuda/cublas/gemm.h"
#include "kernels/cuda/native/describe.h"

namespace tandem::cuda {

enum class Padded { outputs, gradients, gradients_of_weights };

// y[N,O] or its gradient is the matrix in question; x[N,K] and w[O,K] have rows of whole 16 bytes.
struct PaddedSizes {
  std::int64_t samples, inner, outputs;
};
// Whether it is worth it: 16 bits, outputs that are no multiple of eight, and enough of them.
bool gains_by_padding(const PaddedSizes& s, DType dtype);

// y = x·wᵀ, dx = dy·w or dw = dyᵀ·x. `after` follows the whole product (a bias, a sum); its workspace has `own_workspace` bytes.
std::vector<KernelDescription> describe_padded(Padded which, const KernelDescription& d, const KernelRequest& request,
                                               const PaddedSizes& sizes, Binder after, std::int64_t own_workspace, Libraries& libraries);

}  // namespace tandem::cuda
