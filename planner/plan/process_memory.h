// What a process takes of the host's memory to run a plan, above what the program takes when it starts.
#pragma once
#include <cstdint>
#include <string>

#include "planner/plan/plan.h"

namespace tandem {

// Bytes.
struct ProcessMemory {
  std::int64_t arenas = 0;   // of the devices whose memory is the host's
  std::int64_t batches = 0;  // that are read ahead, of training as many again to be measured on, and what a step gives
  std::int64_t copy = 0;     // of parameters and states, from which a checkpoint is written, or of one that is on its way to a file
  std::int64_t program = 0;  // plan, kernels, threads
  std::int64_t total() const { return arenas + batches + copy + program; }
};
// Of one process with all devices of the plan.
ProcessMemory process_memory(const Plan& plan);

// Bytes of the copy of parameters and optimizer state that a checkpoint is written from while the run goes on; 0: nothing is copied, and
// the run waits until the system has taken the values. A copy takes 64 MiB, or a part in 32 of a device's arenas, at most; where parameters
// lie in parts 64 MiB.
std::int64_t copied_bytes(const Plan& plan);

}  // namespace tandem
