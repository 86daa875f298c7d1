// Short notation for graphs in test rows.
#pragma once
#include <string>
#include <vector>

#include "graph/operator.h"

namespace tandem::test {

// "f[2,3]", "d[]" (double), "i[4]" (int64), "s[4]" (int32), "b[2]" (boolean); "-" is an absent operand.
TensorType type_of(const std::string& text);
std::string text_of(const TensorType& type);

// A graph of one node on inputs x0, x1, ... of these types. A type marked with a trailing '!' is a parameter. `op` is an operator of
// ONNX's or an internal one, else "com.microsoft::BiasGelu".
struct OneNode {
  OneNode(std::string_view op, const std::vector<std::string>& inputs, Attributes attributes, int outputs = 1);
  Graph graph;
  NodeId node;
};

// How a value comes about: "Mul(dy0, Sign(x0))"; inputs by name, constants of one element by value, other outputs
// than the first as "Op:1(...)".
std::string expression(const Graph& graph, ValueId value);
std::vector<std::string> expressions(const Graph& graph);  // of its outputs

// Expressions of the gradients of every float input, "-" where nothing flows back, after expanding the node for training.
std::vector<std::string> gradients(OneNode one);
// Expressions of what the node expands to, expanded until nothing does.
std::vector<std::string> expansion(OneNode one, bool training);

}  // namespace tandem::test
