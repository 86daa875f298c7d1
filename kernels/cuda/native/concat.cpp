// Concat: each input is copied to its place in the output.
#include "kernels/cuda/native/copy.h"

namespace tandem::cuda {

Descriptions describe_concat(const KernelRequest& request, Libraries*) {
  const int rank = request.outputs[0].shape.rank();
  KernelDescription d = description_of(request, "native.concat", layout_of(request, rank));
  if (!fit_index(d)) return {};
  const int axis = normalize_axis(request.attributes->integer("axis"), rank, "axis");
  const std::vector<std::int64_t> y = strides_of(d.outputs[0]);
  std::vector<CopyLauncher> copies;
  std::int64_t begin = 0;
  for (const Operand& x : d.inputs) {
    CopyPlan plan = copy_along(x.shape, x.dtype, y, strides_of(x));
    plan.y_offset = begin * y[static_cast<std::size_t>(axis)];
    begin += x.shape[axis];
    const std::optional<CopyLauncher> copy = plan_copy(plan);
    if (!copy) return {};
    copies.push_back(*copy);
  }
  d.efficiency = copy_efficiency;
  d.make = launches([copies](const Buffers& b) -> Launches {
    std::vector<Launches> all;
    for (std::size_t i = 0; i < copies.size(); ++i) all.push_back(CopyLauncher(copies[i])(b.inputs[i], b.outputs[0]));
    return [all = std::move(all)](void* stream) {
      for (const Launches& one : all) one(stream);
    };
  });
  return {d};
}

}  // namespace tandem::cuda
