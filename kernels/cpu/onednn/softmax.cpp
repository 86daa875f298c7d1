// Softmax along one axis, in x's own layout. Not LogSoftmax: oneDNN's logarithm is off by more than float's rounding.
#include "kernels/cpu/onednn/primitive.h"

namespace tandem::onednn {

std::vector<KernelDescription> describe_softmax(const KernelRequest& request) {
  const Operand& x = request.inputs[0];
  if (!float_operands(request) || x.shape.rank() == 0) return {};
  const int axis = normalize_axis(request.attributes->integer("axis", -1), x.shape.rank(), request.op);
  const ThreadScope threads(request.options.threads);
  const auto desc = to_desc(x, x.layout.any() ? Layout::row_major(x.shape.rank()) : x.layout);
  std::vector<KernelDescription> found;
  if (!desc) return found;
  const dnnl::primitive_desc_base pd = compat::softmax(cpu_engine(), attributes(), *desc, axis);
  if (!pd) return found;
  Candidate c(request, "onednn.softmax", pd);
  c.input(0, DNNL_ARG_SRC, *desc);
  c.output(0, DNNL_ARG_DST, *desc);
  if (c) c.description().in_place = {{0, 0}};
  std::move(c).add_to(found);
  return found;
}

}  // namespace tandem::onednn
