// The functions that describe our own kernels, one declared by each row of kernels.inc: each source defines its own and includes
// nothing of this. None needs a library.
#pragma once
#include "kernels/cuda/native/describe.h"

namespace tandem::cuda {

#define KERNEL(op, kernel, describe, ...) Descriptions describe(const KernelRequest&, Libraries*);
#include "kernels/cuda/native/kernels.inc"
#undef KERNEL

bool has_formula(std::string_view op);    // which operators the row Elementwise serves
bool is_comparison(std::string_view op);  // which the row Equal does

}  // namespace tandem::cuda
