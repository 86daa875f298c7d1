// Expand and Tile: copies that read the same elements again and again.
#include "kernels/cuda/native/copy.h"

namespace tandem::cuda {

Descriptions describe_expand(const KernelRequest& request, Libraries*) {
  const int rank = request.outputs[0].shape.rank();
  const KernelDescription d = description_of(request, "native.expand", layout_of(request, rank));
  const std::vector<std::int64_t> x = strides_of(d.inputs[0]);
  std::vector<std::int64_t> repeated(static_cast<std::size_t>(rank), 0);
  const int missing = rank - d.inputs[0].shape.rank();
  for (int axis = missing; axis < rank; ++axis)
    if (d.inputs[0].shape[axis - missing] != 1) repeated[static_cast<std::size_t>(axis)] = x[static_cast<std::size_t>(axis - missing)];
  return describe_copy(d, copy_along(d.outputs[0].shape, d.inputs[0].dtype, strides_of(d.outputs[0]), repeated));
}

Descriptions describe_tile(const KernelRequest& request, Libraries*) {
  const KernelDescription d = description_of(request, "native.tile", layout_of(request, request.inputs[0].shape.rank()));
  const std::vector<std::int64_t> x = strides_of(d.inputs[0]), y = strides_of(d.outputs[0]);
  CopyPlan plan;
  plan.size = size_of(d.inputs[0].dtype);
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    const std::int64_t size = d.inputs[0].shape.dims[axis];
    if (size == 0) return describe_copy(d, copy_along(d.outputs[0].shape, d.inputs[0].dtype, y, x));
    plan.dims.push_back({d.outputs[0].shape.dims[axis] / size, {y[axis] * size, 0}});
    plan.dims.push_back({size, {y[axis], x[axis]}});
  }
  return describe_copy(d, plan);
}

}  // namespace tandem::cuda
