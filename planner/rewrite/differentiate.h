// Gradients as nodes of the graph that they are of.
#pragma once
#include <span>
#include <vector>

#include "graph/operator.h"

namespace tandem {

// What is differentiated: a value, and the gradient of something with respect to it, of its type.
struct GradientOfValue {
  ValueId value, gradient;
};
// Appends the backward graph of that something; gradients[i] belongs to wanted[i], absent where none of the values depends on it.
std::vector<ValueId> differentiate(Graph& graph, std::span<const GradientOfValue> given, std::span<const ValueId> wanted);
std::vector<ValueId> differentiate(Graph& graph, ValueId scalar, std::span<const ValueId> wanted);  // of a scalar itself

// ONNX's Gradient, which stands in a model: the first becomes the nodes that compute it. What is before it is expanded. Fails where a
// derivative is wanted that an operator has none for.
bool is_gradient(const Operator& op);
Graph differentiate_first(const Graph& graph);

}  // namespace tandem
