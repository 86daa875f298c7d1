// The parts of a model that a pipeline's stages have: by name, or cut by estimated times.
#pragma once
#include <map>
#include <string>

#include "graph/graph.h"
#include "planner/options.h"

namespace tandem {

// Of each part of the model, in order: its stage's devices, which are neighbours in the list. `parallel` is resolved.
std::vector<DeviceGroup> groups_of_stages(const Parallelism& parallel, const CompileOptions& options);

// What is wrong where a node of one group reads what a later group makes, by the groups of ONNX nodes; empty: nothing is.
std::string value_backwards(const Graph& model, const std::map<std::string, int, std::less<>>& groups);

// Puts every node into its part's group. What patterns do not name lies with its operands, or in the part "rest"; a part that reads it
// earlier has it then. Fails (usage) where a pattern names nothing, a value would go to an earlier part, or there are more parts than
// nodes to cut between.
void place_by_stages(PlacementRequest& request, const Graph& model, const CompileOptions& options, const Parallelism& parallel);

}  // namespace tandem
