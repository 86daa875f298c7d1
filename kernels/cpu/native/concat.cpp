// Concat {axis}: each input is copied to its place in the output.
#include "kernels/cpu/native/copy.h"

namespace tandem::native {

Descriptions describe_concat(const KernelRequest& request) {
  Operand y = request.outputs[0];
  if (y.layout.any())
    for (const Operand& x : request.inputs)
      if (!x.layout.any() && !x.layout.opaque() && y.layout.any()) y.layout = x.layout;
  y.layout = layout_or_row_major(y);
  if (y.layout.opaque()) return {};
  KernelDescription d{.kernel = "native.concat", .inputs = request.inputs, .outputs = {y}, .efficiency = 0.3};
  for (Operand& x : d.inputs)
    if (x.layout.any() || x.layout.opaque()) x.layout = y.layout;
  const int joined = normalize_axis(request.attributes->integer("axis"), y.shape.rank(), "Concat's axis");
  const int threads = request.options.threads;
  d.make = [=, inputs = d.inputs] {
    std::vector<Copy> copies;
    std::int64_t at = 0;
    for (const Operand& x : inputs) {
      std::vector<AxisLoops> axes;
      for (int axis = 0; axis < y.shape.rank(); ++axis)
        axes.push_back(loops_along(x.shape[axis], {x.shape, x.layout, axis}, {y.shape, y.layout, axis}, axis == joined ? at : 0));
      at += x.shape[joined];
      copies.emplace_back(axes, size_of(x.dtype));
    }
    const PaddingZero padding(y);
    return make_kernel([=](const Memory& m) {
      for (std::size_t i = 0; i < copies.size(); ++i) copies[i].run(m.inputs[i], m.outputs[0], threads);
      if (padding.needed()) padding.run(m.outputs[0]);
    })();
  };
  return {d};
}

}  // namespace tandem::native
