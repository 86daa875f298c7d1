// Where the samples of a batch live, and with them all that is computed of them.
#pragma once
#include <span>

#include "planner/options.h"

namespace tandem {

// How what holds samples lies: split by them; where one device has all, it is that device's own, and so is what is made of it.
Part part_by_samples(const MeshAxis& samples);
// The same proportion in the least numbers.
std::vector<std::int64_t> least(std::vector<std::int64_t> sizes);
// The placement of data parallelism: inputs lie by their samples in these sizes, all else is whole on every device.
PlacementRequest by_samples(const Graph& graph, std::span<const std::int64_t> sizes);

// What pass place does, of nodes that were added later. Fails where one of them needs a transfer.
void place_rest(Graph& graph);

}  // namespace tandem
