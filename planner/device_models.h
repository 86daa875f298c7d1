// What the devices of a plan are to planning: peaks, memory and links.
#pragma once
#include <vector>

#include "kernels/backends.h"
#include "planner/options.h"

namespace tandem {

// How many devices share out a machine. A number that occurs twice belongs to two machines: each shares out the numbers that differ.
int devices_of_a_machine(const std::vector<DeviceSpec>& devices);

// By device. Those that compute and those that only keep activations do not take each other's cores.
std::vector<DeviceModel> models_of(const CompileOptions& options, Backends backends);

}  // namespace tandem
