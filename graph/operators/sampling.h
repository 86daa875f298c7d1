// Reading between the elements of images at places that are computed: what GridSample, RoiAlign and DeformConv have in common.
#pragma once
#include <string_view>
#include <vector>

#include "graph/operators/rules.h"

namespace tandem {

// The elements that a place along one axis is made of: `index` in elements of all axes (the axis' own times its stride), in the
// type of `place`, some of them negative where they lie outside; `weight` in `weights`. Both have k behind the place's axes.
struct Taps {
  ValueId index, weight;
  std::int64_t k;
};
enum class TapMode { nearest, linear, cubic };
enum class Outside { zeros, border, reflection };
struct TapAxis {
  std::int64_t size, stride, elements;  // of the axis; of all axes together
  double low, high;                     // where reflection turns around
};
// `place` counts from 0 at the axis' first element. Outside of an axis elements count 0, or are the ones at its border, or those at
// the mirrored place.
Taps taps_at(GraphBuilder& b, ValueId place, const TapAxis& axis, TapMode mode, Outside outside, DType weights);

// Σ over the taps of all axes of x[B, elements, C], as [B, P, C], P the places of each of B.
// index, weight: [B, P, K].
ValueId sample_rows(GraphBuilder& b, ValueId x, ValueId index, ValueId weight, bool fixed_weights = false);
// Two or three axes' taps, of one shape [..., k] each, as index (int64) and weight [..., k·k'·k''].
struct JoinedTaps {
  ValueId index, weight;
};
JoinedTaps join(GraphBuilder& b, const std::vector<Taps>& axes);

// x[N, C, ...] as rows [N, elements of the other axes, C], and back to [N, C, shape].
ValueId to_rows(GraphBuilder& b, ValueId x);
ValueId from_rows(GraphBuilder& b, ValueId rows, const Ints& shape);

// A constant [values], and a constant of one axis' values among `rank` axes.
ValueId constant_row(GraphBuilder& b, const std::vector<double>& values, DType dtype);
ValueId constant_along(GraphBuilder& b, const std::vector<double>& values, int axis, int rank, DType dtype);

}  // namespace tandem
