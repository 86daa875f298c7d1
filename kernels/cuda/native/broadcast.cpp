// Describes kernels whose operands broadcast: the loops that all of them walk, merged where they can be.
#include "kernels/cuda/native/broadcast.h"

namespace tandem::cuda {

KernelDescription broadcast_description(const KernelRequest& request, std::string_view kernel) {
  KernelDescription d = description_of(request, kernel, layout_of(request, request.outputs[0].shape.rank()));
  d.efficiency = 0.6;
  return d;
}

std::vector<LoopDim> broadcast_loops(const KernelDescription& d) {
  const Shape& shape = d.outputs[0].shape;
  const std::vector<std::int64_t> y = strides_of(d.outputs[0]);
  std::vector<LoopDim> dims;
  for (std::size_t axis = 0; axis < y.size(); ++axis) dims.push_back({shape.dims[axis], {y[axis]}});
  for (const Operand& in : d.inputs) {
    const std::vector<std::int64_t> strides = strides_of(in);
    const std::size_t missing = y.size() - strides.size();
    for (std::size_t axis = 0; axis < y.size(); ++axis) {
      const bool repeated = axis < missing || in.shape.dims[axis - missing] == 1;
      dims[axis].strides.push_back(repeated ? 0 : strides[axis - missing]);
    }
  }
  return ordered(std::move(dims));
}

}  // namespace tandem::cuda
