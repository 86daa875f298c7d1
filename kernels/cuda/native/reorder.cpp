// Reorder copies a tensor into another layout.
#include "kernels/cuda/native/copy.h"

namespace tandem::cuda {

// Same elements in another layout. The layouts are the request's: only plain ones are walked here.
Descriptions describe_reorder(const KernelRequest& request, Libraries*) {
  for (const auto* operands : {&request.inputs, &request.outputs})
    if (!(*operands)[0].layout.any() && !(*operands)[0].layout.plain()) return {};
  const KernelDescription d = description_of(request, "native.reorder", Layout::row_major(request.inputs[0].shape.rank()));
  return describe_copy(d, copy_along(d.inputs[0].shape, d.inputs[0].dtype, strides_of(d.outputs[0]), strides_of(d.inputs[0])));
}

}  // namespace tandem::cuda
