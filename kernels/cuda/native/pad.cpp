// Pad and its gradient. The axes are walked in the padded tensor's order.
#include <algorithm>
#include <numeric>

#include "kernels/cuda/bodies/pad.h"
#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/native/copy.h"

namespace tandem::cuda {
namespace {

struct ModeRow {
  std::string_view name;
  PadMode mode;
};
constexpr ModeRow modes[] = {
    {"constant", PadMode::constant}, {"reflect", PadMode::reflect}, {"edge", PadMode::edge}, {"wrap", PadMode::wrap}};

std::optional<PadMode> mode_of(const Attributes& a) {
  for (const ModeRow& row : modes)
    if (row.name == a.text("mode", "constant")) return row.mode;
  return std::nullopt;
}

// x is the tensor that is padded, y the padded one; `walked` is the one whose elements are counted.
void set_axes(PadAxis (&axes)[max_dims], std::int32_t (*output)[max_dims], const Operand& x, const Operand& y, const Operand& walked,
              const Ints& pads) {
  const std::vector<std::int64_t> xs = strides_of(x), ys = strides_of(y), order_by = strides_of(walked);
  std::vector<std::size_t> order(xs.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return order_by[a] > order_by[b]; });
  for (std::size_t d = 0; d < order.size(); ++d) {
    const std::size_t axis = order[d];
    axes[d] = {divider(walked.shape.dims[axis]), static_cast<std::int32_t>(x.shape.dims[axis]), static_cast<std::int32_t>(pads[axis]),
               static_cast<std::int32_t>(xs[axis]), static_cast<std::int32_t>(ys[axis])};
    if (output) (*output)[d] = static_cast<std::int32_t>(y.shape.dims[axis]);
  }
}

}  // namespace

Descriptions describe_pad(const KernelRequest& request, Libraries*) {
  const int rank = request.inputs[0].shape.rank();
  KernelDescription d = description_of(request, "native.pad", layout_of(request, rank));
  const std::optional<PadMode> mode = mode_of(*request.attributes);
  const std::size_t size = size_of(d.inputs[0].dtype);
  if (!mode || rank == 0 || rank > max_dims || size == 0 || !fit_index(d)) return {};
  const std::uint64_t pattern = pattern_of(d.inputs[0].dtype, request.attributes->real("value", 0));
  d.efficiency = 0.6;
  visit_bytes(size, [&]<class Unit>() {
    PadBody<Unit> body{};
    body.value = static_cast<Unit>(pattern);
    body.mode = *mode;
    body.rank = rank;
    body.elements = static_cast<std::uint32_t>(d.outputs[0].shape.elements());
    set_axes(body.axes, nullptr, d.inputs[0], d.outputs[0], d.outputs[0], request.attributes->ints("pads"));
    d.make = launches([body](const Buffers& b) -> Launches {
      PadBody<Unit> bound = body;
      bound.x = b.in<Unit>(0);
      bound.y = b.out<Unit>(0);
      return [bound, blocks = blocks_for(bound.elements, PadBody<Unit>::threads)](void* stream) { launch(bound, blocks, stream); };
    });
  });
  return {d};
}

Descriptions describe_pad_backward(const KernelRequest& request, Libraries*) {
  const int rank = request.inputs[0].shape.rank();
  KernelDescription d = description_of(request, "native.pad_backward", layout_of(request, rank));
  const std::optional<PadMode> mode = mode_of(*request.attributes);
  if (!mode || rank == 0 || rank > max_dims || !is_storage_float(d.inputs[0].dtype) || !fit_index(d)) return {};
  d.efficiency = 0.5;
  visit_storage(d.inputs[0].dtype, [&]<class T>() {
    PadBackwardBody<T> body{};
    body.mode = *mode;
    body.rank = rank;
    body.elements = static_cast<std::uint32_t>(d.outputs[0].shape.elements());
    set_axes(body.axes, &body.output, d.outputs[0], d.inputs[0], d.outputs[0], request.attributes->ints("pads"));
    d.make = launches([body](const Buffers& b) -> Launches {
      PadBackwardBody<T> bound = body;
      bound.dy = b.in<T>(0);
      bound.dx = b.out<T>(0);
      return [bound, blocks = blocks_for(bound.elements, PadBackwardBody<T>::threads)](void* stream) { launch(bound, blocks, stream); };
    });
  });
  return {d};
}

}  // namespace tandem::cuda
