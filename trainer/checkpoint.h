// All that a run needs to go on, as one file: a zip archive that numpy's load() reads too.
#pragma once
#include <filesystem>
#include <vector>

#include "runtime/session.h"
#include "trainer/json.h"

namespace tandem {

struct Checkpoint {
  Json state;                          // where the run stands: epoch, step, sums, history, and what it was started with
  std::vector<NamedTensor> weights;    // by the template's names
  std::vector<NamedTensor> optimizer;  // by the planner's names: "momentum/WEIGHT"
};

// Replaces the file at once: a failure (io) leaves the earlier checkpoint whole.
void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);
// Fails (io) where it cannot be read, (data) where it is no whole checkpoint.
Checkpoint read_checkpoint(const std::filesystem::path& path);

}  // namespace tandem
