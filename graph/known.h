// What a graph says of values before any step.
#pragma once
#include "graph/graph.h"

namespace tandem {

// A constant, or made of constants alone, as a weight is that the file holds in 8 bits: it is the same in each step.
bool is_known(const Graph& graph, ValueId v);
// Whether the node takes a weight there, and what it takes is known.
bool is_known_weight(const Graph& graph, const Node& node, std::size_t operand);

}  // namespace tandem
