// Transpose {perm}: a copy, where no view of the same memory will do.
#include "kernels/cpu/native/axis_copy.h"

namespace tandem::native {

Descriptions describe_transpose(const KernelRequest& request) {
  Operand x = request.inputs[0], y = request.outputs[0];
  if (x.layout.opaque() || y.layout.opaque()) return {};
  x.layout = layout_or_row_major(x);
  y.layout = layout_or_row_major(y);
  Ints perm = request.attributes->ints("perm", {});
  if (perm.empty())
    for (int axis = y.shape.rank() - 1; axis >= 0; --axis) perm.push_back(axis);
  std::vector<AxisMap> maps;
  for (const std::int64_t axis : perm) maps.push_back({static_cast<int>(axis)});
  return {axis_copy("native.transpose", x, y, maps, 0, request.options.threads)};
}

}  // namespace tandem::native
