// What the devices of a plan are to planning: peaks, memory and links.
#pragma once
#include <string>
#include <vector>

#include "kernels/backends.h"
#include "planner/options.h"

namespace tandem {

// How many devices share out a machine. A number that occurs twice belongs to two machines: each shares out the numbers that differ.
int devices_of_a_machine(const std::vector<DeviceSpec>& devices);

// By device. Those that compute and those that only keep activations do not take each other's cores. A CPU beside devices that are
// described is their host's: it computes as this machine's does, its links carry what theirs do (bytes/s), and nothing is known of its
// memory (0). Such a plan gets a warning that says so. Buffers of all begin at multiples of one alignment, the largest.
std::vector<DeviceModel> models_of(const CompileOptions& options, Backends backends, std::vector<std::string>& warnings);

}  // namespace tandem
