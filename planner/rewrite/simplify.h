// Removes what does not change the result.
#pragma once
#include <string>
#include <vector>

#include "graph/graph.h"

namespace tandem {

// Removes nodes that nothing needs, repeats of the same computation, multiplications by one and reshapes that change
// nothing; views of parameters (Transpose, Reshape) become the parameter's own shape. Rounds over the graph are limited: `warnings` says
// where the last one changed something, too.
Graph simplify(const Graph& graph, std::vector<std::string>* warnings = nullptr);

}  // namespace tandem
