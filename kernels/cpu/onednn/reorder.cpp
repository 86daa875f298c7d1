// Reorders by oneDNN, where it knows both layouts.
#include "kernels/cpu/onednn/reorder.h"

namespace tandem::onednn {

std::vector<KernelDescription> describe_copy(const KernelRequest& request, const std::string& kernel, const Desc& from,
                                             const Layout& from_layout, const Desc& to, const Layout& to_layout) {
  const ThreadScope threads(request.options.threads);
  const dnnl::primitive_desc_base pd = compat::or_empty(
      [&] { return dnnl::reorder::primitive_desc(cpu_engine(), from, cpu_engine(), to, attributes(), true); });
  std::vector<KernelDescription> found;
  if (!pd) return found;
  Candidate c(request, kernel, pd);
  c.input(0, DNNL_ARG_FROM, from, from_layout);
  c.output(0, DNNL_ARG_TO, to, to_layout);
  std::move(c).add_to(found);
  return found;
}

std::vector<KernelDescription> describe_reorder(const KernelRequest& request) {
  const Operand &x = request.inputs[0], &y = request.outputs[0];
  if (!float_operands(request) || x.layout.any() || y.layout.any() || x.layout.opaque() || y.layout.opaque()) return {};
  const auto from = to_desc(x, x.layout), to = to_desc(y, y.layout);
  if (!from || !to) return {};
  return describe_copy(request, "onednn.reorder", *from, x.layout, *to, y.layout);
}

}  // namespace tandem::onednn
