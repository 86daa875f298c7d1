// Where buffers lie in an arena: offsets such that no two that live at the same time share bytes, in as few bytes as a
// greedy search finds. The problem is NP-hard (dynamic storage allocation); the lower bound tells how far off it can be.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tandem {

struct Interval {
  std::int64_t bytes;
  int first, last;  // steps between which it lives, both included
};

struct Packing {
  std::vector<std::int64_t> offsets;  // multiples of 64, by interval
  std::int64_t bytes = 0;             // of the arena
  std::int64_t lower_bound = 0;       // most bytes live at once, each rounded up to 64
};

// Places the intervals one after another into the smallest gap that fits, in the order of size, lifetime or
// size*lifetime, the largest first; "" tries all three and keeps the best, until one is at the lower bound. About
// n log n for n intervals that pack well.
// Fails (usage) on an unknown order.
Packing place(std::span<const Interval> intervals, std::string_view order = "");

}  // namespace tandem
