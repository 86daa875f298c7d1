// Copies axis by axis: y[i…] = x[f(i)…], or a constant. All layouts on both sides.
#pragma once
#include <functional>
#include <optional>

#include "kernels/cpu/native/copy.h"

namespace tandem::native {

// For every index of an axis of y, the index along x's axis; −1: the fill value.
struct AxisMap {
  int from_axis;  // −1: none, y repeats along this axis
  std::vector<std::int64_t> from;
};
std::vector<std::int64_t> whole_axis(std::int64_t size);  // 0, 1, ...

// y = x's elements as the maps say, `fill` where they say −1. They are made with the kernel: a description of a long axis
// stays small.
KernelDescription axis_copy(std::string kernel, const Operand& x, const Operand& y, std::function<std::vector<AxisMap>()> maps_of, double fill, int threads);

// Both operands of one rank, in the layouts they have; where one has none, the other's. Nothing for opaque ones.
struct OperandPair {
  Operand x, y;
};
std::optional<OperandPair> same_layout(const KernelRequest& request);

}  // namespace tandem::native
