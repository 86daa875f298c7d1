// What integers that a model takes choose from.
#pragma once
#include "graph/graph.h"
#include "trainer/data/dataset.h"

namespace tandem {

// Follows an input, also of floats that are cast, to the tables (Gather) and labels (losses) that read it, through operators that hand its
// elements on: the smallest of them counts. An input that is computed with, or that nothing such reads, has no range.
IndexRange index_range(const Graph& graph, ValueId input);

}  // namespace tandem
