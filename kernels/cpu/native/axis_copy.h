// Copies axis by axis: y[i…] = x[f(i)…], or a constant. All layouts on both sides.
#pragma once
#include <optional>

#include "kernels/cpu/native/copy.h"

namespace tandem::native {

// Of an axis of y: where it comes from in x.
struct AxisMap {
  int from_axis = -1;  // −1: none, y repeats along this axis
  IndexMap from = {};  // for an index of y, that along x's axis, negative: the fill value; absent: the same index
};

// y = x's elements as the maps, one for each axis of y, say.
KernelDescription axis_copy(std::string kernel, const Operand& x, const Operand& y, std::vector<AxisMap> maps, double fill, int threads);

// Both operands of one rank, in the layouts they have; where one has none, the other's. Nothing for opaque ones.
struct OperandPair {
  Operand x, y;
};
std::optional<OperandPair> same_layout(const KernelRequest& request);

}  // namespace tandem::native
