// A gradient's operator is checked by running the shape rule of its forward operator on a graph of one node: what that gives must be
// what the gradient was given.
#include "graph/operators/gradient_rules.h"

namespace tandem {

void expect_gradient_of(InferContext& c, std::string_view forward, const std::vector<TensorType>& operands, int dy) {
  Graph graph;
  Node node{.op = &internal_operator(forward), .name = c.node().name, .attributes = c.attributes()};
  for (const TensorType& type : operands) node.inputs.push_back(graph.add_value({.type = type}));
  node.outputs = {graph.add_value({})};
  InferContext context(graph, node);
  node.op->infer(context);
  if (to_string(node.attributes) != to_string(c.attributes())) c.fail("has ", c.attributes(), ", expected ", node.attributes);
  expect_shape(c, dy, graph[node.outputs[0]].type.shape);
}

void infer_gradient(InferContext& c, std::string_view forward, int first) {
  const TensorType x{c.input(0).dtype, Shape(c.attributes().ints("input_shape"))};
  std::vector<TensorType> operands{x};
  for (int i = first; c.has_input(i); ++i) operands.push_back(c.input(i));
  expect_gradient_of(c, forward, operands, 0);
  c.set_output(0, x);
}

void expect_same(const InferContext& c, int first, int last) {
  for (int i = first; i < last; ++i) {
    if (!c.has_input(i)) continue;
    expect_dtype(c, i, c.input(0).dtype);
    expect_shape(c, i, c.shape(0));
  }
}

}  // namespace tandem
