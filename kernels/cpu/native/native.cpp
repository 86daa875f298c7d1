// Keeps the padding of blocked layouts zero, whatever a kernel leaves there.
#include "kernels/cpu/native/native.h"

namespace tandem::native {

PaddingZero::PaddingZero(const Operand& operand) {
  if (!operand.present() || operand.layout.any() || operand.layout.opaque() || operand.layout.plain()) return;
  dims_ = physical_dims(operand.shape, operand.layout);
  for (PhysicalDim& d : dims_) d.stride *= static_cast<std::int64_t>(size_of(operand.dtype));
  for (int axis = 0; axis < operand.shape.rank(); ++axis) {
    std::int64_t padded = 1;
    for (const PhysicalDim& d : dims_)
      if (d.axis == axis) padded *= d.size;
    if (padded != operand.shape[axis]) axes_.push_back({axis, operand.shape[axis]});
  }
}

void PaddingZero::run(std::byte* memory) const {
  for (const Axis& axis : axes_) clear(memory, 0, axis, axis.size);
}

// `left`: how many indices along the axis are inside the shape from here on. Everything below one trip of a loop is
// contiguous, so a trip that begins at or behind the end is cleared whole.
void PaddingZero::clear(std::byte* memory, std::size_t dim, const Axis& axis, std::int64_t left) const {
  if (dim == dims_.size()) return;
  const PhysicalDim& d = dims_[dim];
  if (d.axis != axis.axis) {
    for (std::int64_t i = 0; i < d.size; ++i) clear(memory + i * d.stride, dim + 1, axis, left);
    return;
  }
  const std::int64_t whole = std::min(d.size, left / d.step);  // trips without padding
  std::int64_t i = whole;
  if (i < d.size && left > i * d.step) {
    clear(memory + i * d.stride, dim + 1, axis, left - i * d.step);
    ++i;
  }
  if (i < d.size) std::memset(memory + i * d.stride, 0, static_cast<std::size_t>((d.size - i) * d.stride));
}

}  // namespace tandem::native
