// Slice copies a part of a tensor; its gradient puts that back among zeros.
#include "kernels/cuda/native/copy.h"

namespace tandem::cuda {
namespace {

struct SliceAxes {
  std::vector<std::int64_t> starts, steps;  // of every axis
};
SliceAxes slice_of(const Attributes& a, int rank) {
  SliceAxes s{std::vector<std::int64_t>(static_cast<std::size_t>(rank), 0), std::vector<std::int64_t>(static_cast<std::size_t>(rank), 1)};
  const Ints& starts = a.ints("starts");
  Ints every(starts.size());
  for (std::size_t i = 0; i < every.size(); ++i) every[i] = static_cast<std::int64_t>(i);
  const Ints axes = a.ints("axes", every), steps = a.ints("steps", Ints(starts.size(), 1));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    s.starts[static_cast<std::size_t>(axes[i])] = starts[i];
    s.steps[static_cast<std::size_t>(axes[i])] = steps[i];
  }
  return s;
}

// Strides along the part of a tensor that a Slice takes. Returns where it begins.
std::int64_t walk_part(const SliceAxes& s, std::vector<std::int64_t>& strides) {
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < strides.size(); ++axis) {
    offset += s.starts[axis] * strides[axis];
    strides[axis] *= s.steps[axis];
  }
  return offset;
}

}  // namespace

Descriptions describe_slice(const KernelRequest& request, Libraries*) {
  const int rank = request.inputs[0].shape.rank();
  const KernelDescription d = description_of(request, "native.slice", layout_of(request, rank));
  const SliceAxes s = slice_of(*request.attributes, rank);
  std::vector<std::int64_t> x = strides_of(d.inputs[0]);
  const std::int64_t offset = walk_part(s, x);
  CopyPlan plan = copy_along(d.outputs[0].shape, d.inputs[0].dtype, strides_of(d.outputs[0]), x);
  plan.x_offset = offset;
  return describe_copy(d, plan);
}

Descriptions describe_slice_backward(const KernelRequest& request, Libraries*) {
  const int rank = request.inputs[0].shape.rank();
  KernelDescription d = description_of(request, "native.slice_backward", layout_of(request, rank));
  const SliceAxes s = slice_of(*request.attributes, rank);
  std::vector<std::int64_t> dx = strides_of(d.outputs[0]);
  const std::int64_t offset = walk_part(s, dx);
  CopyPlan plan = copy_along(d.inputs[0].shape, d.inputs[0].dtype, dx, strides_of(d.inputs[0]));
  plan.y_offset = offset;
  if (!fit_index(d)) return {};
  const std::optional<CopyLauncher> copy = plan_copy(plan);
  if (!copy) return {};
  d.efficiency = copy_efficiency;
  d.make = launches([copy = *copy, elements = d.outputs[0].shape.elements(), size = plan.size](const Buffers& b) -> Launches {
    return [zero = fill_launches(b.outputs[0], elements, size, 0), place = CopyLauncher(copy)(b.inputs[0], b.outputs[0])](void* stream) {
      zero(stream);
      place(stream);
    };
  });
  return {d};
}

}  // namespace tandem::cuda
