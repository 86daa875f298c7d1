// A graph's inputs and outputs hold the samples along axis 0. Where a file has them elsewhere, a Transpose stands at the edge of its graph.
#pragma once
#include "graph/operator.h"

namespace tandem {

// An input of `type` that holds its samples along `axis`: given with the samples first, turned to what the file has. With `one_sample` it
// has no axis for them, and is given one. Returns what the file's nodes read.
ValueId add_input(Graph& graph, const std::string& name, const TensorType& type, int axis, bool one_sample);

// Another axis before all others for the only sample of a graph that has none.
inline constexpr int new_axis = -1;

// A value that holds its samples along `axis`, with them first; it takes the name, and the file's own is NAME/as_in_file. What makes
// probabilities of scores stays last. Returns `value` where they are first already.
ValueId samples_first(Graph& graph, ValueId value, int axis);
// The same by where the value says that it holds them; unchanged where they are not one run along one axis.
ValueId samples_first(Graph& graph, ValueId value);

}  // namespace tandem
