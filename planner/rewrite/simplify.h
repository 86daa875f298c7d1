// Removes what does not change the result.
#pragma once
#include "graph/graph.h"

namespace tandem {

// Removes nodes that nothing needs, repeats of the same computation, multiplications by one and reshapes that change
// nothing; views of parameters (Transpose, Reshape) become the parameter's own shape.
Graph simplify(const Graph& graph);

}  // namespace tandem
