// Activations that are computed again for the backward pass, by the names of what makes them or to keep a plan within a budget of memory.
#pragma once
#include <string>
#include <string_view>

#include "planner/options.h"
#include "planner/recompute/run_again.h"

namespace tandem {

// "fit", a share such as "50%", or sizes such as "8GiB" (of several devices "8GiB,4GiB"). Fails (usage) on any other text.
MemoryBudget parse_memory_budget(std::string_view text);
std::string to_string(const MemoryBudget& budget);

// What a device needs for a plan with a program.
struct ProgramBytes {
  std::int64_t all = 0;
  std::int64_t scratch = 0;  // of it: what is used again within a step
};
using BytesOf = std::function<ProgramBytes(LoweredGraph)>;

struct Recomputed {
  RunAgain again;
  std::int64_t activations = 0;  // bytes that were kept for the backward pass
  double share = 0;              // how much of the program's time is added
  double at_least = 0;           // no choice among the blocks adds less of it; of names 0
  std::int64_t bytes = 0;        // of the plan; of names 0
  bool reached = true;           // the budget; else this takes the fewest bytes
};
std::string to_string(const Recomputed& recomputed);  // "13 steps run again, 6.1% more time, at least 5.8%; 50.0 MiB of ..."

// What steps make that are `named` is computed again. Where a chain of steps is named, it is cut into at most 16 blocks, and what goes
// from block to block is kept. `losses`: the program's outputs that are.
Recomputed recompute_named(const LoweredGraph& program, std::span<const std::size_t> losses, const std::function<bool(const Step&)>& named);

// The least that keeps a plan within these bytes; of a share those that the plan has without, less the rest of the activations.
Recomputed recompute_within(const LoweredGraph& program, std::span<const std::size_t> losses, std::int64_t budget, const BytesOf& bytes_of);
std::int64_t budget_of_share(const LoweredGraph& program, std::span<const std::size_t> losses, double share, const BytesOf& bytes_of);

}  // namespace tandem
