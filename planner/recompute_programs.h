// What is computed again in the programs of a plan, as the options ask for it.
#pragma once
#include <string>
#include <vector>

#include "planner/options.h"
#include "planner/recompute/recompute.h"

namespace tandem {

struct ProgramToRecompute {
  LoweredGraph* program;
  std::size_t device;                // the first that runs it, of CompileOptions::devices
  std::vector<std::size_t> losses;   // which of its outputs are
  BytesOf bytes_of;                  // of the plan, on that device
};

// Writes the programs anew, and returns what the plan says of it; "" where nothing is asked for. Fails (device) where a budget cannot be
// kept, with the fewest bytes that can, and (usage) on a pattern that names nothing. A budget that fits takes the fewest bytes then.
std::string recompute_programs(std::span<const ProgramToRecompute> programs, const CompileOptions& options);

bool has_budget(const CompileOptions& options);  // of bytes: one that fits has none where a plan without fits
// The bytes that the plan may take on the program's device; there is a budget.
std::int64_t budget_of(const ProgramToRecompute& program, const CompileOptions& options);
[[noreturn]] void refuse_budget(const ProgramToRecompute& program, const CompileOptions& options, std::int64_t asked,
                                std::int64_t smallest);

}  // namespace tandem
