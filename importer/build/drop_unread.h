// Graph with only what its outputs need.
#pragma once
#include "graph/graph.h"

namespace tandem {

// Drops nodes, constants and activations that no output needs, and numbers the rest anew. Inputs and parameters stay.
void drop_unread(Graph& graph);

}  // namespace tandem
