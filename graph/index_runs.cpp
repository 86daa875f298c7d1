#include "graph/index_runs.h"

namespace tandem {

AxisRuns runs_of(const Shape& whole, std::span<const AxisRange> part) {
  AxisRuns runs;
  int cut = 0;  // axes up to the last that is cut
  for (const AxisRange& r : part) cut = std::max(cut, r.axis + 1);
  for (int axis = 0; axis < cut; ++axis) runs.push_back(*runs_of(whole[axis], axis, part));
  return runs;
}

Shape shape_of(const Shape& whole, const AxisRuns& part) {
  Shape shape = whole;
  for (std::size_t axis = 0; axis < part.size(); ++axis) {
    std::int64_t indices = 0;
    for (const IndexRun& run : part[axis]) indices += run.end - run.begin;
    shape[static_cast<int>(axis)] = indices;
  }
  return shape;
}

}  // namespace tandem
