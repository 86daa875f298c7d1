// When in a step each node of a plan's graph is computed.
#pragma once
#include "graph/graph.h"

namespace tandem {

// Sets the phases and chunks of all nodes. What follows from parameters alone is computed once, but for what is gathered again each time
// (`gather_again`). `split_backward`: what no other stage waits for is of phase `weights`.
void find_phases(Graph& graph, bool gather_again, bool split_backward);

}  // namespace tandem
