// From a graph to a plan.
#pragma once
#include <span>
#include <vector>

#include "base/error.h"
#include "kernels/backends.h"
#include "planner/options.h"
#include "planner/plan/plan.h"
#include "ranks/world.h"

namespace tandem {

// What compile() throws where CompileOptions::stop asked it to end: nothing was made.
struct Stopped : Error {
  Stopped() : Error(ExitCode::resumable, "stopped while planning") {}
};

// Bytes that are free now on each device of a process, -1 where it cannot tell; 0 for devices of other processes, which are
// not asked: that would take memory of a GPU.
std::vector<std::int64_t> free_memory(const std::vector<DeviceSpec>& devices, DeviceRange own, Backends backends);

// `parameters_of`: a plan of the same session whose parameters' places and layouts this one keeps.
Plan compile(const GraphSource& source, const CompileOptions& options, Backends backends, const Plan* parameters_of = nullptr);

// The training graph of all devices, for a viewer: forward, loss, backward, sums and updates before kernels are chosen.
Graph training_graph(const GraphSource& source, const CompileOptions& options);

}  // namespace tandem
