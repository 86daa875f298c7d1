// Slice by oneDNN, where the part begins and ends with whole blocks of its layout.
#include "kernels/cpu/onednn/reorder.h"

namespace tandem::onednn {

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
