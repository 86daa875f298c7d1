// From programs to a plan: slices of the batch, all-reduces, concats, memory.
#pragma once
#include <string>
#include <vector>

#include "planner/lower/lowered_graph.h"
#include "planner/options.h"

namespace tandem {

struct Replica {
  DeviceSpec spec;
  DeviceModel model;
  std::int64_t slice_begin = 0;
  std::int64_t slice_size = 0;
  const LoweredGraph* program = nullptr;       // shared by the devices with equal slices
  bool stages_inputs = false;             // the backend's
};

// Fills plan.inputs, outputs, parameters, devices and buckets. `rows`: how many rows of each output are one sample's; 0: it
// is each device's own.
void assemble(Plan& plan, const std::vector<Replica>& replicas, const std::vector<std::string>& output_names, std::span<const std::int64_t> rows, const CompileOptions& options, const Plan* parameters_of);

}  // namespace tandem
