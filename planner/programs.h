// From the graph of all devices to the program of each.
#pragma once
#include <span>
#include <vector>

#include "planner/options.h"
#include "planner/place/device_classes.h"

namespace tandem {

// The rows of a batch that a device works on.
struct SliceOfBatch {
  std::int64_t begin = 0, size = 0;
};
// by device; absent: there is one
std::vector<SliceOfBatch> slices_of(const CompileOptions& options, const std::optional<PlacementRequest>& placement);

// Where the values of a plan's graph shall live: as options.placement says, else the inputs by their samples. Fails where the
// request does not fit the model, or where, without one, no input holds samples, with what the model's source has to say of a part of the
// batch. `rows`: of each output how many are one sample's, which are given row by row; 0: none. Parameters of another plan lie as that has
// them.
PlacementRequest placement_of(const GraphSource& source, const Graph& model, std::span<const std::int64_t> rows,
                              const CompileOptions& options, const Plan* parameters_of);

struct Programs {
  std::vector<Graph> graphs;      // by class of devices
  std::vector<std::size_t> of;    // by device: its class
  std::vector<std::vector<int>> outputs;  // by class: which of the whole graph's outputs it gives; without devices: all of them
  BeginsOfParts begins;
};
// Cuts a placed graph. A device without samples takes part in exchanges and updates alone.
Programs programs_of(Graph whole, const CompileOptions& options);

// All devices' programs as one graph, for a viewer: names begin with the device's, and what devices exchange is read by each of
// those that get it.
Graph joined(const Programs& programs, const CompileOptions& options);

}  // namespace tandem
