// The rows of kernels.inc as one list.
#include "kernels/cpu/kernels.h"

#include "kernels/cpu/families.h"

namespace tandem {

std::span<const CpuKernelRow> cpu_kernels() {
  static constexpr CpuKernelRow rows[] = {
#define KERNEL(op, kernel, family, describe, ...) {op, kernel, family::describe __VA_OPT__(,) __VA_ARGS__},
#include "kernels/cpu/kernels.inc"
#undef KERNEL
  };
  return rows;
}

}  // namespace tandem
