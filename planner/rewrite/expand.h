// Composite operators as the operators that they are made of.
#pragma once
#include "graph/graph.h"

namespace tandem {

// Rewrites composite operators into the operators kernels know, until none is left.
Graph expand(const Graph& graph, bool training);

}  // namespace tandem
