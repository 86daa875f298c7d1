// Operators that move elements: Reorder, Reshape, Transpose, Concat, Slice, Expand, Tile and their gradients; Fill.
#include <algorithm>

#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/native/copy.h"
#include "kernels/cuda/native/native.h"

namespace tandem::cuda {
namespace {

constexpr double efficiency = 0.7;

// Loops over `shape` with strides of (y, x).
CopyPlan loops(const Shape& shape, DType dtype, const std::vector<std::int64_t>& y, const std::vector<std::int64_t>& x) {
  CopyPlan p;
  p.size = size_of(dtype);
  for (std::size_t axis = 0; axis < shape.dims.size(); ++axis) p.dims.push_back({shape.dims[axis], {y[axis], x[axis]}});
  return p;
}

Descriptions copy_of(KernelDescription d, const CopyPlan& plan) {
  if (!fit_index(d) || plan.size == 0) return {};
  const std::optional<CopyLauncher> copy = plan_copy(plan);
  if (!copy) return {};
  d.efficiency = efficiency;
  d.make = launches([copy = *copy](const Buffers& b) { return CopyLauncher(copy)(b.inputs[0], b.outputs[0]); });
  return {d};
}

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

}  // namespace

// Same elements in another layout. The layouts are the request's: only plain ones are walked here.
Descriptions describe_reorder(const KernelRequest& request, Libraries*) {
  for (const auto* operands : {&request.inputs, &request.outputs})
    if (!(*operands)[0].layout.any() && !(*operands)[0].layout.plain()) return {};
  const KernelDescription d = description_of(request, "native.reorder", Layout::row_major(request.inputs[0].shape.rank()));
  return copy_of(d, loops(d.inputs[0].shape, d.inputs[0].dtype, strides_of(d.outputs[0]), strides_of(d.inputs[0])));
}

Descriptions describe_reshape(const KernelRequest& request, Libraries*) {
  KernelDescription d = description_of(request, "native.reshape", Layout());
  d.inputs[0].layout = Layout::row_major(d.inputs[0].shape.rank());
  d.outputs[0].layout = Layout::row_major(d.outputs[0].shape.rank());
  CopyPlan plan;
  plan.size = size_of(d.inputs[0].dtype);
  plan.dims = {{d.inputs[0].shape.elements(), {1, 1}}};
  return copy_of(d, plan);
}

Descriptions describe_transpose(const KernelRequest& request, Libraries*) {
  const KernelDescription d = description_of(request, "native.transpose", Layout::row_major(request.inputs[0].shape.rank()));
  const Ints& perm = request.attributes->ints("perm");
  const std::vector<std::int64_t> x = strides_of(d.inputs[0]);
  std::vector<std::int64_t> permuted;
  for (const std::int64_t axis : perm) permuted.push_back(x[static_cast<std::size_t>(axis)]);
  return copy_of(d, loops(d.outputs[0].shape, d.inputs[0].dtype, strides_of(d.outputs[0]), permuted));
}

Descriptions describe_expand(const KernelRequest& request, Libraries*) {
  const int rank = request.outputs[0].shape.rank();
  const KernelDescription d = description_of(request, "native.expand", layout_of(request, rank));
  const std::vector<std::int64_t> x = strides_of(d.inputs[0]);
  std::vector<std::int64_t> repeated(static_cast<std::size_t>(rank), 0);
  const int missing = rank - d.inputs[0].shape.rank();
  for (int axis = missing; axis < rank; ++axis)
    if (d.inputs[0].shape[axis - missing] != 1) repeated[static_cast<std::size_t>(axis)] = x[static_cast<std::size_t>(axis - missing)];
  return copy_of(d, loops(d.outputs[0].shape, d.inputs[0].dtype, strides_of(d.outputs[0]), repeated));
}

Descriptions describe_tile(const KernelRequest& request, Libraries*) {
  const KernelDescription d = description_of(request, "native.tile", layout_of(request, request.inputs[0].shape.rank()));
  const std::vector<std::int64_t> x = strides_of(d.inputs[0]), y = strides_of(d.outputs[0]);
  CopyPlan plan;
  plan.size = size_of(d.inputs[0].dtype);
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    const std::int64_t size = d.inputs[0].shape.dims[axis];
    if (size == 0) return copy_of(d, loops(d.outputs[0].shape, d.inputs[0].dtype, y, x));
    plan.dims.push_back({d.outputs[0].shape.dims[axis] / size, {y[axis] * size, 0}});
    plan.dims.push_back({size, {y[axis], x[axis]}});
  }
  return copy_of(d, plan);
}

Descriptions describe_slice(const KernelRequest& request, Libraries*) {
  const int rank = request.inputs[0].shape.rank();
  const KernelDescription d = description_of(request, "native.slice", layout_of(request, rank));
  const SliceAxes s = slice_of(*request.attributes, rank);
  std::vector<std::int64_t> x = strides_of(d.inputs[0]);
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    offset += s.starts[axis] * x[axis];
    x[axis] *= s.steps[axis];
  }
  CopyPlan plan = loops(d.outputs[0].shape, d.inputs[0].dtype, strides_of(d.outputs[0]), x);
  plan.x_offset = offset;
  return copy_of(d, plan);
}

Descriptions describe_slice_backward(const KernelRequest& request, Libraries*) {
  const int rank = request.inputs[0].shape.rank();
  KernelDescription d = description_of(request, "native.slice_backward", layout_of(request, rank));
  const SliceAxes s = slice_of(*request.attributes, rank);
  std::vector<std::int64_t> dx = strides_of(d.outputs[0]);
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < dx.size(); ++axis) {
    offset += s.starts[axis] * dx[axis];
    dx[axis] *= s.steps[axis];
  }
  CopyPlan plan = loops(d.inputs[0].shape, d.inputs[0].dtype, dx, strides_of(d.inputs[0]));
  plan.y_offset = offset;
  if (!fit_index(d)) return {};
  const std::optional<CopyLauncher> copy = plan_copy(plan);
  if (!copy) return {};
  d.efficiency = efficiency;
  d.make = launches([copy = *copy, elements = d.outputs[0].shape.elements(), size = plan.size](const Buffers& b) -> Launches {
    return [zero = fill_launches(b.outputs[0], elements, size, 0), place = CopyLauncher(copy)(b.inputs[0], b.outputs[0])](void* stream) {
      zero(stream);
      place(stream);
    };
  });
  return {d};
}

Descriptions describe_concat(const KernelRequest& request, Libraries*) {
  const int rank = request.outputs[0].shape.rank();
  KernelDescription d = description_of(request, "native.concat", layout_of(request, rank));
  if (!fit_index(d)) return {};
  const int axis = normalize_axis(request.attributes->integer("axis"), rank, "axis");
  const std::vector<std::int64_t> y = strides_of(d.outputs[0]);
  std::vector<CopyLauncher> copies;
  std::int64_t begin = 0;
  for (const Operand& x : d.inputs) {
    CopyPlan plan = loops(x.shape, x.dtype, y, strides_of(x));
    plan.y_offset = begin * y[static_cast<std::size_t>(axis)];
    begin += x.shape[axis];
    const std::optional<CopyLauncher> copy = plan_copy(plan);
    if (!copy) return {};
    copies.push_back(*copy);
  }
  d.efficiency = efficiency;
  d.make = launches([copies](const Buffers& b) -> Launches {
    std::vector<Launches> all;
    for (std::size_t i = 0; i < copies.size(); ++i) all.push_back(CopyLauncher(copies[i])(b.inputs[i], b.outputs[0]));
    return [all = std::move(all)](void* stream) {
      for (const Launches& one : all) one(stream);
    };
  });
  return {d};
}

Descriptions describe_fill(const KernelRequest& request, Libraries*) {
  KernelDescription d = description_of(request, "native.fill", layout_of(request, request.outputs[0].shape.rank()));
  const DType dtype = d.outputs[0].dtype;
  if (size_of(dtype) == 0) return {};
  d.efficiency = efficiency;
  d.make = launches([dtype, elements = d.outputs[0].shape.elements(), pattern = pattern_of(dtype, request.attributes->real("value", 0))](const Buffers& b) {
    return fill_launches(b.outputs[0], elements, size_of(dtype), pattern);
  });
  return {d};
}

}  // namespace tandem::cuda
