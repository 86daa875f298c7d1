// What integers that a model takes choose from.
#pragma once
#include "data/dataset.h"
#include "graph/graph.h"

namespace tandem {

// Follows an input, also of floats that are cast, to the operators that take positions or classes (OperandRole), through those that
// hand its elements on: the smallest range counts. An input that is computed with, or that nothing such reads, has none.
IndexRange index_range(const Graph& graph, ValueId input);

// Whether a NaN in an input is one that the model itself sees to: all that reads it hands its elements on, asks what they are (IsNaN,
// comparisons), replaces them (Imputer of NaN, Where by IsNaN of the same value), or has branches for them (tree ensembles).
bool takes_nan(const Graph& graph, ValueId input);

}  // namespace tandem
