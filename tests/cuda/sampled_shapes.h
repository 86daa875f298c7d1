// Our own kernels on the host at the shapes of networks, each operand between pages that nobody may touch.
#pragma once
#include "tests/cuda/shapes.h"

namespace tandem::cuda {

// Those of which a kernel of our own computes the operator, but for convolutions' weights: each block of these reads the whole batch.
std::vector<ShapeRow> with_own_kernels(const std::vector<ShapeRow>& rows);
// How many kernels ran, forward and back. Memory is zeros but for integers, which are noise; a kernel that leaves its operands ends the
// process. An emulation::Sample bounds what it takes.
int run_in_guarded_memory(const ShapeRow& row, DType type);

}  // namespace tandem::cuda
