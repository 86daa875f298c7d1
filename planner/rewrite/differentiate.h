// Gradients as nodes of the graph that they are of.
#pragma once
#include <span>
#include <vector>

#include "graph/operator.h"

namespace tandem {

// Appends the backward graph of a scalar; gradients[i] belongs to wanted[i], absent where the scalar does not depend on it.
std::vector<ValueId> differentiate(Graph& graph, ValueId scalar, std::span<const ValueId> wanted);

// ONNX's Gradient, which stands in a model: the first becomes the nodes that compute it. What is before it is expanded. Fails where a
// derivative is wanted that an operator has none for.
bool is_gradient(const Operator& op);
Graph differentiate_first(const Graph& graph);

}  // namespace tandem
