// A program in which steps of the forward pass run again, just before the backward pass needs them: the same kernels on operands that lie
// alike, so that every value has the bits that it had.
#pragma once
#include <vector>

#include "planner/recompute/blocks.h"

namespace tandem {

struct RunAgain {
  LoweredGraph program;
  double seconds = 0;      // that the steps take which run again
  int steps = 0;           // how many these are
  std::int64_t kept = 0;   // bytes of activations that still live from one pass to the other
};

RunAgain run_again(const Activations& activations, const std::vector<Block>& blocks, const std::vector<ChainAction>& actions);

}  // namespace tandem
