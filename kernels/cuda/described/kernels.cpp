// The kernels of GPUs that are described: our own as they are, and for what a library does operands in rows and no workspace.
#include <algorithm>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/native/describe.h"
#include "kernels/described/described_backend.h"

namespace tandem::cuda {
namespace {

constexpr std::string_view own = "native.", assumed = "assumed.";

// Operators of which a library's kernels are the only ones.
constexpr std::string_view by_libraries[] = {
#define KERNEL(op, ...) op,
#include "kernels/cuda/libraries.inc"
#undef KERNEL
};

// Products take operands as they lie.
KernelDescription of_library(const KernelRequest& request) {
  const int rank = request.inputs[0].shape.rank();
  return description_of(request, concat(own, request.op), rank < 4 ? Layout::row_major(rank) : layout_of(request, rank));
}

class AssumedKernels final : public DescribedKernels {
 public:
  std::vector<KernelRow> rows() const override {
    std::vector<KernelRow> list = rows_of(native_kernels());
    for (const std::string_view op : by_libraries)
      if (std::ranges::find(list, op, &KernelRow::op) == list.end()) list.push_back({op, "assumed"});
    return list;
  }

  std::vector<KernelDescription> describe(const KernelRequest& request) const override {
    KernelRequest asked = request;
    const std::string named = request.kernel.starts_with(assumed) ? concat(own, request.kernel.substr(assumed.size())) : "";
    asked.kernel = named;
    Descriptions all;
    for (const Row& row : native_kernels())
      if (all.empty() && row.serves(request.op)) all = row.describe(asked, nullptr);
    if (all.empty() && std::ranges::find(by_libraries, request.op) != std::end(by_libraries))
      all = {of_library(request)};
    std::erase_if(all, [&](const KernelDescription& d) { return !named.empty() && d.kernel != named; });
    for (KernelDescription& d : all)
      if (d.kernel.starts_with(own)) d.kernel = concat(assumed, d.kernel.substr(own.size()));
    return all;
  }

  Gain fuses(const KernelRequest& request, int capability) const override { return cuda::fuses(request, capability); }
};

}  // namespace
}  // namespace tandem::cuda

extern "C" __attribute__((visibility("default"))) const tandem::DescribedKernels* tandem_described_kernels() {
  static const tandem::cuda::AssumedKernels kernels;
  return &kernels;
}
