// Concat of blocks: all inputs and the output in one layout, so that each input is one copy.
#include <algorithm>

#include "kernels/cpu/onednn/primitive.h"

namespace tandem::onednn {

std::vector<KernelDescription> describe_concat(const KernelRequest& request) {
  const Operand& y = request.outputs[0];
  if (!float_operands(request) || y.shape.rank() == 0) return {};
  const int rank = y.shape.rank(), axis = normalize_axis(request.attributes->integer("axis"), rank, request.op);
  const ThreadScope threads(request.options.threads);
  // As the output is wanted, as the inputs lie (blocked first: they are costlier to reorder), and row-major.
  std::vector<Layout> layouts{y.layout};
  for (const Operand& x : request.inputs)
    if (!x.layout.plain()) layouts.push_back(x.layout);
  for (const Operand& x : request.inputs) layouts.push_back(x.layout);
  layouts.push_back(Layout::row_major(rank));
  std::vector<KernelDescription> found;
  std::vector<Layout> tried{Layout()};
  for (const Layout& layout : layouts) {
    if (std::find(tried.begin(), tried.end(), layout) != tried.end()) continue;
    tried.push_back(layout);
    const auto desc_y = to_desc(y, layout);
    if (!desc_y) continue;
    // Blocks along the axis must not be cut.
    std::int64_t block = 1;
    for (const PhysicalDim& d : physical_dims(y.shape, layout))
      if (d.axis == axis) block = std::max(block, d.step);
    const auto cut = [&](const Operand& x) { return x.shape[axis] % block != 0; };
    if (std::any_of(request.inputs.begin(), request.inputs.end() - 1, cut)) continue;
    std::vector<Desc> parts;
    for (const Operand& x : request.inputs)
      if (const auto desc = to_desc(x, layout)) parts.push_back(*desc);
    if (parts.size() != request.inputs.size()) continue;
    const dnnl::primitive_desc_base pd = compat::concat(cpu_engine(), attributes(), *desc_y, axis, parts);
    if (!pd) continue;
    Candidate c(request, "onednn.concat", pd);
    for (std::size_t i = 0; i < parts.size(); ++i) c.input(static_cast<int>(i), DNNL_ARG_MULTIPLE_SRC + static_cast<int>(i), parts[i]);
    c.output(0, DNNL_ARG_DST, *desc_y);
    std::move(c).add_to(found);
  }
  return found;
}

}  // namespace tandem::onednn
