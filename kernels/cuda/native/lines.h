// The lines of a tensor along one of its axes.
#pragma once
#include "kernels/cuda/native/nest.h"
#include "kernels/kernel.h"

namespace tandem::cuda {

struct Lines {
  std::int64_t length, stride;  // of a line
  std::vector<LoopDim> others;  // the axes that count the lines, in memory's order
};
Lines lines_of(const Operand& x, int axis);

}  // namespace tandem::cuda
