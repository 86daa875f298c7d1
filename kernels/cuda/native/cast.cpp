// Cast between all types of numbers, small ones too, element by element in the output's packed order.
#include "kernels/cuda/bodies/cast.h"
#include "kernels/cuda/native/broadcast.h"

namespace tandem::cuda {

namespace {

// Between float32 and a type of 16 bits, in one order; empty for other types.
std::function<std::unique_ptr<Kernel>()> float_cast(DType from, DType to, std::int64_t elements) {
  const auto make = [&]<class From, class To>() {
    return launches([elements](const Buffers& b) {
      return launches_over(FloatCastBody<From, To>{b.in<From>(0), b.out<To>(0), elements}, ceil_div(elements, 8));
    });
  };
  if (from == DType::float32 && to == DType::float16) return make.template operator()<float, Half>();
  if (from == DType::float32 && to == DType::bfloat16) return make.template operator()<float, BFloat16>();
  if (from == DType::float16 && to == DType::float32) return make.template operator()<Half, float>();
  if (from == DType::bfloat16 && to == DType::float32) return make.template operator()<BFloat16, float>();
  return {};
}

}  // namespace

Descriptions describe_cast(const KernelRequest& request, Libraries*) {
  KernelDescription d = broadcast_description(request, "native.cast");
  if (!fit_index(d) || size_of(d.inputs[0].dtype) == 0 || size_of(d.outputs[0].dtype) == 0) return {};
  const auto nest = nest_of<1>(broadcast_loops(d), {1});
  if (!nest) return {};
  const auto elements = static_cast<std::uint32_t>(d.outputs[0].shape.elements());
  const auto from = static_cast<Number>(d.inputs[0].dtype), to = static_cast<Number>(d.outputs[0].dtype);
  if (nest->rank <= 1 && (nest->rank == 0 || nest->strides[0][0] == 1))
    if (const auto make = float_cast(d.inputs[0].dtype, d.outputs[0].dtype, elements)) {
      d.efficiency = 0.8;
      d.make = make;
      return {d};
    }
  const SmallRounding rounding = rounding_of(*request.attributes);
  d.make = launches([=](const Buffers& b) {
    return launches_over(CastBody{b.inputs[0], b.outputs[0], from, to, elements, *nest, rounding}, elements);
  });
  return {d};
}

}  // namespace tandem::cuda
