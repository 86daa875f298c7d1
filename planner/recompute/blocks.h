// The forward pass as a chain of blocks: where it is cut, and in which ways each block may be kept.
#pragma once
#include <functional>
#include <vector>

#include "planner/recompute/activations.h"
#include "planner/recompute/chain.h"

namespace tandem {

struct Block {
  int begin = 0, end = 0;                    // steps of the forward pass
  int backward_begin = 0, backward_end = 0;  // of the backward pass
  std::vector<BufferId> crossing;  // what steps before make and steps from here on read; all of it can be computed again
  std::vector<BufferId> entering;  // that of it which the block before makes
  std::vector<BufferId> inside;    // what the backward pass reads and no later block does
  std::vector<std::vector<BufferId>> dropped;  // of `inside`, by way
};

struct Cuts {
  int most = 64;                                // blocks
  std::function<bool(BufferId)> through = {};   // what may be cut through; empty: everything
};
// Cuts where few bytes go on, so that each block has its share of what the backward pass reads.
std::vector<Block> blocks_of(const Activations& activations, const Cuts& cuts = {});

// Sets each block's ways, at most so many, by the seconds that a byte costs; returns what the choice among them goes by.
std::vector<ChainBlock> with_ways(const Activations& activations, std::vector<Block>& blocks, std::size_t most = 8);

}  // namespace tandem
