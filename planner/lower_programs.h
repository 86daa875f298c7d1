// From the graphs of a plan's devices to their programs: kernels, layouts, and parameters that lie alike wherever they are.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/lower/lowered_graph.h"
#include "planner/lower/tuner.h"
#include "planner/programs.h"

namespace tandem {

// Devices that run the same program.
struct Unit {
  std::string backend;
  std::size_t graph;  // of Programs::graphs
  std::int64_t samples;
  DeviceModel model;
  int device;                              // the first one's index
  std::optional<std::size_t> keeps_for{};  // the unit whose activations these devices keep
};

using UnitPrograms = std::vector<std::unique_ptr<LoweredGraph>>;             // by unit
using Tuners = std::map<std::string, std::unique_ptr<Tuner>, std::less<>>;  // by backend

struct LoweredPrograms {
  const Programs* graphs = nullptr;
  UnitPrograms programs;
  double seconds = 0;  // of the slowest, without its updates
};

// Units with more samples choose first: the others' parameters have the same layouts, and where `parameters_of` is given those of that
// plan. What parameters in parts take beside replicas does not count: their bits are those of replicas. `kernel`: of all units, but for
// what their devices' models say. Fails as select_kernels() does.
LoweredPrograms lower_programs(const Programs& graphs, std::span<const Unit> units, KernelOptions kernel, const Tuners& tuners,
                               bool training, const Plan* parameters_of);

}  // namespace tandem
