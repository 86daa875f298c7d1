// Copies between strided and blocked arrangements. Axis by axis, each index has an offset on both sides; the offsets
// are broken into the fewest nested loops of constant strides, so that any pair of layouts, slices, flips, repetitions
// and borders are one mechanism. No table has an axis's length.
#pragma once
#include <functional>

#include "graph/layout.h"
#include "kernels/cpu/native/native.h"

namespace tandem::native {

// Where the elements along an axis of a tensor lie: the offset of an element is the sum over the axes.
class AxisOffsets {
 public:
  AxisOffsets() = default;  // of no axis: all indices in one place
  AxisOffsets(const Shape& shape, const Layout& layout, int axis);
  std::int64_t operator[](std::int64_t index) const;
  std::int64_t period() const;  // indices so far apart lie at one distance, wherever the first is

 private:
  std::vector<PhysicalDim> dims_;
};
std::vector<std::int64_t> axis_offsets(const Shape& shape, const Layout& layout, int axis);  // of every index

struct CopyLoop {
  std::int64_t size, from, to;  // trips, strides in elements
};
struct CopyNest {
  std::int64_t from = 0, to = 0;  // where it starts
  std::vector<CopyLoop> loops;    // outermost first
};
// The loops along one axis of the copied box of `size` indices: i comes from from[i] and goes to to[i + shift].
using AxisLoops = std::vector<CopyNest>;
AxisLoops loops_along(std::int64_t size, const AxisOffsets& from, const AxisOffsets& to, std::int64_t shift = 0);
// The same where a function says the index on either side. A negative one on the first is left out.
using IndexMap = std::function<std::int64_t(std::int64_t)>;
AxisLoops loops_from(const IndexMap& map, std::int64_t size, const AxisOffsets& from, const AxisOffsets& to);
AxisLoops loops_to(const IndexMap& map, std::int64_t size, const AxisOffsets& from, const AxisOffsets& to);
// The nests that cover the box; loops ordered so that writing is sequential, and merged.
std::vector<CopyNest> copy_nests(std::span<const AxisLoops> axes);

class Copy {
 public:
  Copy() = default;
  Copy(std::span<const AxisLoops> axes, std::size_t element_bytes);
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
