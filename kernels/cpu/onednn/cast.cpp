// Cast of whole tensors between layouts.
#include "kernels/cpu/onednn/reorder.h"

namespace tandem::onednn {

// Between float32 and bfloat16 where the layout changes too: one pass instead of two.
std::vector<KernelDescription> describe_cast(const KernelRequest& request) {
  const Operand &x = request.inputs[0], &y = request.outputs[0];
  if (!float_operands(request) || x.layout.any() || y.layout.any() || x.layout.opaque() || y.layout.opaque() || x.layout == y.layout)
    return {};
  const auto from = to_desc(x, x.layout), to = to_desc(y, y.layout);
  if (!from || !to) return {};
  return describe_copy(request, "onednn.cast", *from, x.layout, *to, y.layout);
}

}  // namespace tandem::onednn
