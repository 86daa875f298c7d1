// The rows of kernels.inc as one list.
#include "kernels/cuda/kernels.h"

#include "kernels/cuda/native/families.h"

namespace tandem::cuda {

std::span<const Row> native_kernels() {
  static constexpr Row rows[] = {
#define KERNEL(op, kernel, describe, ...) {op, kernel, describe __VA_OPT__(,) __VA_ARGS__},
#include "kernels/cuda/native/kernels.inc"
#undef KERNEL
  };
  return rows;
}

}  // namespace tandem::cuda
