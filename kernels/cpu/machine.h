// What the CPU backend knows of the machine it runs on.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

std::string cpu_name();                // "AMD EPYC 9755"
// Of the threads wanted, those that OpenMP starts under OMP_THREAD_LIMIT. oneDNN's kernels wait for the team that they
// were made for: with fewer threads they would wait for ever.
int team_size(int wanted);
std::int64_t total_memory();           // bytes: the smallest of the machine's and the control groups' limits
std::int64_t available_memory();       // bytes: the smallest of their room now
// From now on the calling thread, and those of the OpenMP team that it starts, take numbers for zero that are too small for float32's
// (1.2e-38) or double's full precision: a step with such costs up to a hundred times as much, and the gradients of long recurrences are
// full of them. float16's small numbers stay.
void flush_subnormals();
// Restricts the calling thread to these cores; where the system refuses, nothing changes.
void pin_thread(const std::vector<int>& cores);

}  // namespace tandem
