// Copies between strided and blocked arrangements. Axis by axis, each index has an offset on both sides; the offsets
// are broken into the fewest nested loops of constant strides, so that any pair of layouts, slices, flips, repetitions
// and borders are one mechanism.
#pragma once
#include "kernels/cpu/native/native.h"

namespace tandem::native {

// Offsets in elements of every index along an axis of the copied box, on both sides; the offset of an element is the
// sum over the axes. A pair whose `from` is negative is left out.
struct AxisOffsets {
  std::vector<std::int64_t> from, to;
};
// The offset of every index along an axis of a tensor.
std::vector<std::int64_t> axis_offsets(const Shape& shape, const Layout& layout, int axis);

struct CopyLoop {
  std::int64_t size, from, to;  // trips, strides in elements
};
struct CopyNest {
  std::int64_t from = 0, to = 0;  // where it starts
  std::vector<CopyLoop> loops;    // outermost first
};
// The nests that cover the box; loops ordered so that writing is sequential, and merged.
std::vector<CopyNest> copy_nests(std::span<const AxisOffsets> axes);

class Copy {
 public:
  Copy() = default;
  Copy(std::span<const AxisOffsets> axes, std::size_t element_bytes);
  // Same elements of the same shape in another layout.
  static Copy reorder(const Shape& shape, const Layout& from, const Layout& to, std::size_t element_bytes);
  void run(const std::byte* from, std::byte* to, int threads) const;
  // to += from, in one thread and a fixed order: several elements may go to one place.
  template <class T>
  void add(const T* from, T* to) const;

 private:
  std::vector<CopyNest> nests_;  // each with at least two loops
  std::size_t element_bytes_ = 1;
};

}  // namespace tandem::native
