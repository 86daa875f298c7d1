// Fill writes one value into every element.
#include "kernels/cuda/native/copy.h"

namespace tandem::cuda {

Descriptions describe_fill(const KernelRequest& request, Libraries*) {
  KernelDescription d = description_of(request, "native.fill", layout_of(request, request.outputs[0].shape.rank()));
  const DType dtype = d.outputs[0].dtype;
  if (size_of(dtype) == 0) return {};
  d.efficiency = copy_efficiency;
  d.make = launches([dtype, elements = d.outputs[0].shape.elements(), pattern = pattern_of(dtype, request.attributes->real("value", 0))](
                        const Buffers& b) { return fill_launches(b.outputs[0], elements, size_of(dtype), pattern); });
  return {d};
}

}  // namespace tandem::cuda
