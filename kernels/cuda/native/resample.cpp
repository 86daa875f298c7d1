// Resample: in any plain layout in which the axes are neighbours, with what lies around them as one axis on either side.
#include "kernels/cuda/bodies/resample.h"

#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/native/describe.h"
#include "kernels/cuda/native/nest.h"

namespace tandem::cuda {
namespace {

constexpr std::size_t operands_of_axis = 3;

// Elements behind the last of `axes` axes from `axis` on; nothing where they are no neighbours.
std::optional<std::int64_t> inner_of(const Operand& x, int axis, int axes) {
  const std::vector<PhysicalDim> dims = physical_dims(x.shape, x.layout);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].axis != axis) continue;
    if (axes == 2 && (d + 1 == dims.size() || dims[d + 1].axis != axis + 1)) return std::nullopt;
    return dims[d + static_cast<std::size_t>(axes) - 1].stride;
  }
  return std::nullopt;
}

}  // namespace

Descriptions describe_resample(const KernelRequest& request, Libraries*) {
  const int rank = request.inputs[0].shape.rank(), axis = normalize_axis(request.attributes->integer("axis"), rank, "Resample's axis");
  const int axes = has(request.inputs, 1 + operands_of_axis) ? 2 : 1;
  KernelDescription d = description_of(request, "native.resample", layout_of(request, rank));
  for (Operand* o : {&d.inputs[0], &d.outputs[0]})
    if (o->layout != d.inputs[0].layout || !inner_of(*o, axis, axes)) o->layout = Layout::row_major(rank);
  d.inputs[0].layout = d.outputs[0].layout;
  for (std::size_t i = 1; i < d.inputs.size(); ++i)
    if (d.inputs[i].present()) d.inputs[i].layout = Layout::row_major(1);
  const DType dtype = d.inputs[0].dtype;
  const bool weighted = has(d.inputs, operands_of_axis) || has(d.inputs, 2 * operands_of_axis);
  if (!fit_index(d) || size_of(dtype) == 0 || (weighted && !is_storage_float(dtype))) return {};
  d.efficiency = 0.5;
  const std::int64_t inner = *inner_of(d.outputs[0], axis, axes);
  const auto make = [&]<class T>() {
    using Body = ResampleBody<T>;
    d.make = launches([=, inputs = d.inputs, x = d.inputs[0].shape, y = d.outputs[0].shape](const Buffers& b) -> Launches {
      const auto table = [&](std::size_t a) -> ResampleAxis<typename Body::W> {
        const std::size_t operand = 1 + operands_of_axis * a;
        if (!has(inputs, operand)) return {divider(1), 1, 0, nullptr, nullptr, nullptr};
        const int own = axis + static_cast<int>(a);
        return {divider(y[own]), static_cast<std::int32_t>(x[own]), static_cast<std::int32_t>(inputs[operand + 1].shape.elements()),
                b.in<std::int32_t>(operand), b.in<std::int32_t>(operand + 1), b.in<typename Body::W>(operand + 2)};
      };
      const Body body{b.in<T>(0), b.out<T>(0), static_cast<std::uint32_t>(y.elements()), divider(inner), table(0), table(1)};
      return [body, blocks = blocks_for(body.elements, Body::threads)](void* stream) { launch(body, blocks, stream); };
    });
  };
  if (is_storage_float(dtype))
    visit_storage(dtype, make);
  else
    visit_bytes(size_of(dtype), make);
  return {d};
}

}  // namespace tandem::cuda
