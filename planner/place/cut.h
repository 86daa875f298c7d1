// The devices' programs, cut out of the graph of all of them.
#pragma once
#include <vector>

#include "graph/graph.h"

namespace tandem {

// The program of one device: of each value its part, of each transfer what it does in it. A device that is idle takes part in
// sums and updates, with zeros, and gives of a model's outputs none. Fails (usage) where a parameter cannot be split as asked.
Graph cut(const Graph& whole, int device);
bool same_program(const Graph& whole, int a, int b);  // of these two devices
bool is_idle(const Graph& whole, int device);  // it has nothing of what is split along an axis of its mesh
std::vector<int> outputs_on(const Graph& whole, int device);  // those of the graph that the device gives

}  // namespace tandem
