// Where a part of a tensor lies in the memory of the whole.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "graph/placement.h"
#include "graph/shape.h"

namespace tandem {

// What a part has of a row-major tensor's axes, from the first one on; axes behind these are whole. None: the part is the tensor.
using AxisRuns = std::vector<std::vector<IndexRun>>;
AxisRuns runs_of(const Shape& whole, std::span<const AxisRange> part);  // which fits
Shape shape_of(const Shape& whole, const AxisRuns& part);

// Calls move(byte of the whole, byte of the part, bytes) for each stretch of memory that a part has between two bytes of the whole.
template <class Move>
void for_each_run(const TensorType& whole, const AxisRuns& part, std::int64_t begin, std::int64_t end, const Move& move) {
  if (begin >= end || whole.shape.elements() == 0) return;
  if (part.empty()) return move(begin, begin, end - begin);
  struct Stride {
    std::int64_t whole = 0, part = 0;  // bytes of one index
  };
  std::vector<Stride> strides(part.size());
  auto bytes = static_cast<std::int64_t>(size_of(whole.dtype));
  for (int axis = static_cast<int>(part.size()); axis < whole.shape.rank(); ++axis) bytes *= whole.shape[axis];
  Stride stride{bytes, bytes};
  for (std::size_t axis = part.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride.whole *= whole.shape[static_cast<int>(axis)];
    std::int64_t indices = 0;
    for (const IndexRun& run : part[axis]) indices += run.end - run.begin;
    stride.part *= indices;
  }
  const auto go = [&](const auto& self, std::size_t axis, std::int64_t at, std::int64_t in_part) -> void {
    const auto [step, part_step] = strides[axis];
    for (const IndexRun& run : part[axis]) {
      const std::int64_t from = std::max(begin, at + run.begin * step), to = std::min(end, at + run.end * step);
      const auto place = [&](std::int64_t index) { return in_part + (index - run.begin) * part_step; };
      if (from < to && axis + 1 == part.size()) move(from, in_part + from - at - run.begin * step, to - from);
      if (from < to && axis + 1 < part.size())
        for (std::int64_t i = (from - at) / step; i * step < to - at; ++i) self(self, axis + 1, at + i * step, place(i));
      in_part += (run.end - run.begin) * part_step;
    }
  };
  go(go, 0, 0, 0);
}

}  // namespace tandem
