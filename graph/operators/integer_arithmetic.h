// What operators on integers of few bits share.
#pragma once
#include <utility>

#include "graph/operators/rules.h"

namespace tandem {

struct IntegerRange {
  double low, high;
};
IntegerRange range_of(DType integers);  // of 16 bits and less

// Integers, less their zero point where there is one (negative: no such operand), as `to`. A zero point of one number is for all; a list
// is for the rows (axis −2) or columns (−1) of a matrix, or for an axis counted from the front.
ValueId less_zero_point(ExpandContext& e, int input, int zero_point, int axis, DType to);
// A list of numbers along that axis of tensors of `rank`; other shapes stay as they are.
ValueId along_axis(GraphBuilder& b, ValueId v, int axis, int rank);

}  // namespace tandem
