// Dropout and its gradient. The mask between them has a byte for every element of x's memory, in x's layout.
#include <algorithm>

#include "kernels/cuda/bodies/dropout.h"
#include "kernels/cuda/native/channel_tiles.h"
#include "kernels/cuda/native/launches.h"
#include "kernels/cuda/native/nest.h"

namespace tandem::cuda {
namespace {

// The mask's layout names x's, so that the gradient is asked for in the same one.
constexpr std::string_view dropout_family = "dropout.";

double kept_scale(double ratio) { return ratio < 1 ? 1 / (1 - ratio) : 0.0; }

}  // namespace

Descriptions describe_dropout(const KernelRequest& request, Libraries*) {
  KernelDescription d = description_of(request, "native.dropout", layout_of(request, request.inputs[0].shape.rank()));
  const Operand& x = d.inputs[0];
  if (!is_storage_float(x.dtype) || !fit_index(d)) return {};
  const std::int64_t elements = x.shape.elements();
  d.outputs[0].layout = x.layout;
  d.outputs[1] = {DType::uint8, Shape{elements}, Layout::opaque(concat(dropout_family, x.layout))};
  d.in_place = {{0, 0}};
  d.efficiency = 0.6;
  std::vector<LoopDim> dims;
  const std::vector<std::int64_t> memory = strides_of(x), number = strides_of(x.shape, Layout::row_major(x.shape.rank()));
  for (std::size_t axis = 0; axis < memory.size(); ++axis) dims.push_back({x.shape.dims[axis], {memory[axis], number[axis]}});
  const auto nest = nest_of<1>(ordered(std::move(dims)), {1});
  if (!nest) return {};
  const double ratio = static_cast<double>(request.attributes->real("ratio", 0.5F));
  const std::int64_t row = x.shape.rank() == 0 || x.shape[0] == 0 ? 1 : elements / x.shape[0];
  // A ratio of 1 drops all: no word reaches 2³², so the scale does it.
  const DropoutRule rule{nullptr, row, static_cast<std::uint32_t>(std::min(ratio * 0x1p32, 0xffffffffp0)), static_cast<std::uint32_t>(request.attributes->integer("layer", 0)), kept_scale(ratio)};
  visit_storage(x.dtype, [&]<class T>() {
    d.make = launches([=, row_major = x.layout.is_row_major(), numbers = *nest](const Buffers& b) -> Launches {
      DropoutRule bound = rule;
      bound.random = b.in<std::int64_t>(1);
      const auto in_packs = [&]<int width>() {
        return launches_over(DropoutPacksBody<T, width>{b.in<T>(0), b.out<T>(0), b.out<std::uint8_t>(1), bound, elements / width}, elements / width);
      };
      if (row_major && row % 4 == 0) return elements % 8 == 0 && sizeof(T) == 2 ? in_packs.template operator()<8>() : in_packs.template operator()<4>();
      return launches_over(DropoutBody<T>{b.in<T>(0), b.out<T>(0), b.out<std::uint8_t>(1), bound, elements, row_major, numbers}, elements);
    });
  });
  return {d};
}

Descriptions describe_dropout_backward(const KernelRequest& request, Libraries*) {
  const Operand& mask = request.inputs[1];
  const std::string prefix = Layout::opaque(dropout_family).tag();
  if (!mask.layout.tag().starts_with(prefix)) return {};
  const Layout layout(mask.layout.tag().substr(prefix.size()));
  KernelDescription d = description_of(request, "native.dropout_backward", layout);
  if (!is_storage_float(d.inputs[0].dtype) || !layout.plain()) return {};
  d.inputs[0].layout = d.outputs[0].layout = layout;
  d.in_place = {{0, 0}};
  d.efficiency = 0.7;
  const double scale = kept_scale(static_cast<double>(request.attributes->real("ratio", 0.5F)));
  const std::int64_t elements = d.inputs[0].shape.elements();
  visit_storage(d.inputs[0].dtype, [&]<class T>() {
    visit_width<T>(elements, [&]<int width>() {
      d.make = launches([=](const Buffers& b) {
        return launches_over(DropoutBackwardBody<T, width>{b.in<T>(0), b.in<std::uint8_t>(1), b.out<T>(0), elements / width, scale}, elements / width);
      });
    });
  });
  return {d};
}

}  // namespace tandem::cuda
