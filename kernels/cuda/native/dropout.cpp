// Dropout and its gradient. The mask between them has a byte for every element of x's memory, in x's layout.
#include <algorithm>

#include "kernels/cuda/bodies/dropout.h"
#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/native/describe.h"
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
  visit_storage(x.dtype, [&]<class T>() {
    DropoutBody<T> body{};
    body.elements = elements;
    body.row = x.shape.rank() == 0 || x.shape[0] == 0 ? 1 : elements / x.shape[0];
    // A ratio of 1 drops all: no word reaches 2³², so the scale does it.
    body.threshold = static_cast<std::uint32_t>(std::min(ratio * 0x1p32, 0xffffffffp0));
    body.layer = static_cast<std::uint32_t>(request.attributes->integer("layer", 0));
    body.scale = kept_scale(ratio);
    body.row_major = x.layout.is_row_major();
    body.numbers = *nest;
    d.make = launches([body](const Buffers& b) -> Launches {
      DropoutBody<T> bound = body;
      bound.x = b.in<T>(0);
      bound.random = b.in<std::int64_t>(1);
      bound.y = b.out<T>(0);
      bound.mask = b.out<std::uint8_t>(1);
      return [bound, blocks = blocks_for(bound.elements, DropoutBody<T>::threads)](void* stream) { launch(bound, blocks, stream); };
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
  visit_storage(d.inputs[0].dtype, [&]<class T>() {
    d.make = launches([scale, elements = d.inputs[0].shape.elements()](const Buffers& b) -> Launches {
      const DropoutBackwardBody<T> body{b.in<T>(0), b.in<std::uint8_t>(1), b.out<T>(0), elements, scale};
      return [body, blocks = blocks_for(elements, DropoutBackwardBody<T>::threads)](void* stream) { launch(body, blocks, stream); };
    });
  });
  return {d};
}

}  // namespace tandem::cuda
