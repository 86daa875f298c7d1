// Reorder(x) → y: the same elements in the output's layout. Where the shapes differ too (a view of another shape), the
// order of elements is the row-major one.
#include "kernels/cpu/native/copy.h"

namespace tandem::native {

Descriptions describe_reorder(const KernelRequest& request) {
  const Operand x = with_layout(request.inputs[0], layout_or_row_major(request.inputs[0]));
  const Operand y = with_layout(request.outputs[0], layout_or_row_major(request.outputs[0]));
  if (x.layout.opaque() || y.layout.opaque() || x.dtype != y.dtype || x.shape.elements() != y.shape.elements()) return {};
  const std::size_t bytes = size_of(x.dtype);
  const int threads = request.options.threads;
  KernelDescription d{.kernel = "native.reorder", .inputs = {x}, .outputs = {y}, .efficiency = 0.3};
  // Of two shapes, one is seen in the other's: row-major memory is row-major in both. Else through row-major scratch.
  const bool one_copy = x.shape == y.shape || x.layout.is_row_major() || y.layout.is_row_major();
  if (!one_copy) d.workspace = x.shape.elements() * static_cast<std::int64_t>(bytes);
  d.make = [=]() -> std::unique_ptr<Kernel> {
    const Layout row_x = Layout::row_major(x.shape.rank()), row_y = Layout::row_major(y.shape.rank());
    const PaddingZero padding(y);
    const auto run = [=](auto copies) {
      return make_kernel([=](const Memory& m) {
        copies(m);
        if (padding.needed()) padding.run(m.outputs[0]);
      })();
    };
    if (one_copy) {
      const Copy copy = x.shape == y.shape        ? Copy::reorder(x.shape, x.layout, y.layout, bytes)
                        : x.layout.is_row_major() ? Copy::reorder(y.shape, row_y, y.layout, bytes)
                                                  : Copy::reorder(x.shape, x.layout, row_x, bytes);
      return run([=](const Memory& m) { copy.run(m.inputs[0], m.outputs[0], threads); });
    }
    const Copy unpack = Copy::reorder(x.shape, x.layout, row_x, bytes), pack = Copy::reorder(y.shape, row_y, y.layout, bytes);
    return run([=](const Memory& m) {
      unpack.run(m.inputs[0], m.workspace, threads);
      pack.run(m.workspace, m.outputs[0], threads);
    });
  };
  return {d};
}

// Where no view will do.
Descriptions describe_reshape(const KernelRequest& request) {
  Descriptions all = describe_reorder(request);
  for (KernelDescription& d : all) d.kernel = "native.reshape";
  return all;
}

}  // namespace tandem::native
