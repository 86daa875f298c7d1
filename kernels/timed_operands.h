// The step's scalars among the operands of a kernel that is timed: noise in StepScalars::skip would tell an update to do nothing.
#pragma once
#include "graph/step_scalars.h"
#include "kernels/kernel.h"

namespace tandem {

// Whether an operand has their type. Another vector of that type may have a zero among its numbers, too.
inline bool may_be_scalars(const Operand& o) { return o.dtype == DType::float32 && o.shape == Shape{StepScalars::count}; }

}  // namespace tandem
