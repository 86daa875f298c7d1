// CUDA's list of kernels: the libraries' first, then our own (native/kernels.cpp), which need none.
#include "kernels/cuda/kernels.h"

#include "kernels/cuda/fused/elementwise.h"
#include "kernels/cuda/native/families.h"

namespace tandem::cuda {
#define KERNEL(op, kernel, describe) std::vector<KernelDescription> describe(const KernelRequest&, Libraries*);
#include "kernels/cuda/libraries.inc"
#undef KERNEL

namespace {

constexpr Row libraries_rows[] = {
#define KERNEL(op, kernel, describe) {op, kernel, describe},
#include "kernels/cuda/libraries.inc"
#undef KERNEL
};

}  // namespace

std::span<const Row> kernels() {
  static const std::vector<Row> all = [] {
    std::vector<Row> rows(std::begin(libraries_rows), std::end(libraries_rows));
    for (Row row : native_kernels()) {
      if (row.describe == describe_elementwise) row.describe = describe_fused_elementwise;  // the same, compiled where NVRTC is there
      rows.push_back(row);
    }
    return rows;
  }();
  return all;
}

}  // namespace tandem::cuda
