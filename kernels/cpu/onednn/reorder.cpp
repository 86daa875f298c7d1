// Copies between layouts: Reorder and Cast of whole tensors, Slice of whole blocks of one.
#include "kernels/cpu/onednn/primitive.h"
#include "kernels/cpu/onednn/rows.h"

namespace tandem::onednn {
namespace {

std::vector<KernelDescription> describe_copy(const KernelRequest& request, const std::string& kernel, const Desc& from, const Layout& from_layout,
                                             const Desc& to, const Layout& to_layout) {
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

}  // namespace

std::vector<KernelDescription> describe_reorder(const KernelRequest& request) {
  const Operand &x = request.inputs[0], &y = request.outputs[0];
  if (!float_operands(request) || x.layout.any() || y.layout.any() || x.layout.opaque() || y.layout.opaque()) return {};
  const auto from = to_desc(x, x.layout), to = to_desc(y, y.layout);
  if (!from || !to) return {};
  return describe_copy(request, "onednn.reorder", *from, x.layout, *to, y.layout);
}

// Between float32 and bfloat16 where the layout changes too: one pass instead of two.
std::vector<KernelDescription> describe_cast(const KernelRequest& request) {
  const Operand &x = request.inputs[0], &y = request.outputs[0];
  if (!float_operands(request) || x.layout.any() || y.layout.any() || x.layout.opaque() || y.layout.opaque() || x.layout == y.layout) return {};
  const auto from = to_desc(x, x.layout), to = to_desc(y, y.layout);
  if (!from || !to) return {};
  return describe_copy(request, "onednn.cast", *from, x.layout, *to, y.layout);
}

// A part of a blocked tensor is itself one where the bounds fall between blocks.
std::vector<KernelDescription> describe_slice(const KernelRequest& request) {
  const Operand &x = request.inputs[0], &y = request.outputs[0];
  if (!float_operands(request) || x.layout.any() || x.layout.opaque()) return {};
  const Attributes& a = *request.attributes;
  const Ints &starts = a.ints("starts"), &axes = a.ints("axes");
  for (const std::int64_t step : a.ints("steps", {}))
    if (step != 1) return {};
  const auto whole = to_desc(x, x.layout), to = to_desc(y, x.layout);
  if (!whole || !to) return {};
  Dims offsets(static_cast<std::size_t>(x.shape.rank()), 0);
  for (std::size_t i = 0; i < axes.size(); ++i) offsets[static_cast<std::size_t>(axes[i])] = starts[i];
  for (const PhysicalDim& d : physical_dims(x.shape, x.layout))
    if (offsets[static_cast<std::size_t>(d.axis)] % d.step != 0) return {};
  const auto part = compat::or_empty([&]() -> std::optional<Desc> {
    return whole->submemory_desc(Dims(y.shape.begin(), y.shape.end()), offsets, true);
  });
  if (!part) return {};
  return describe_copy(request, "onednn.slice", *part, x.layout, *to, x.layout);
}

}  // namespace tandem::onednn
