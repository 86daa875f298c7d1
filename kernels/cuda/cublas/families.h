// The describe functions of cuBLASLt's kernels, which kernels.cpp lists.
#pragma once
#include "kernels/cuda/kernels.h"

namespace tandem::cuda {

std::vector<KernelDescription> describe_inner_product(const KernelRequest&, Libraries*);
std::vector<KernelDescription> describe_inner_product_backward_data(const KernelRequest&, Libraries*);
std::vector<KernelDescription> describe_inner_product_backward_weights(const KernelRequest&, Libraries*);
std::vector<KernelDescription> describe_matmul(const KernelRequest&, Libraries*);

}  // namespace tandem::cuda
