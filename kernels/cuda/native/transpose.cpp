// Transpose copies, where no view of the same memory will do.
#include "kernels/cuda/native/copy.h"

namespace tandem::cuda {

Descriptions describe_transpose(const KernelRequest& request, Libraries*) {
  const KernelDescription d = description_of(request, "native.transpose", Layout::row_major(request.inputs[0].shape.rank()));
  const Ints& perm = request.attributes->ints("perm");
  const std::vector<std::int64_t> x = strides_of(d.inputs[0]);
  std::vector<std::int64_t> permuted;
  for (const std::int64_t axis : perm) permuted.push_back(x[static_cast<std::size_t>(axis)]);
  return describe_copy(d, copy_along(d.outputs[0].shape, d.inputs[0].dtype, strides_of(d.outputs[0]), permuted));
}

}  // namespace tandem::cuda
