// Cast between all types of numbers, small ones too, element by element in the output's packed order.
#include "kernels/cuda/bodies/cast.h"
#include "kernels/cuda/native/broadcast.h"

namespace tandem::cuda {

Descriptions describe_cast(const KernelRequest& request, Libraries*) {
  KernelDescription d = broadcast_description(request, "native.cast");
  if (!fit_index(d) || size_of(d.inputs[0].dtype) == 0 || size_of(d.outputs[0].dtype) == 0) return {};
  const auto nest = nest_of<1>(broadcast_loops(d), {1});
  if (!nest) return {};
  const auto elements = static_cast<std::uint32_t>(d.outputs[0].shape.elements());
  const auto from = static_cast<Number>(d.inputs[0].dtype), to = static_cast<Number>(d.outputs[0].dtype);
  const SmallRounding rounding = rounding_of(*request.attributes);
  d.make = launches([=](const Buffers& b) { return launches_over(CastBody{b.inputs[0], b.outputs[0], from, to, elements, *nest, rounding}, elements); });
  return {d};
}

}  // namespace tandem::cuda
