// What shape, gradient and expansion rules share.
#pragma once
#include "graph/follow.h"
#include "graph/operator.h"
#include "graph/place.h"

namespace tandem {

// Static operands as the importer leaves them in attributes: integers as Ints, an integer or a tensor; numbers as a
// float, an integer, a list of one or a tensor. Without `absent` they fail where the attribute is missing.
Ints static_ints(const Attributes& attributes, std::string_view name);
Ints static_ints(const Attributes& attributes, std::string_view name, Ints absent);
std::int64_t static_integer(const Attributes& attributes, std::string_view name, std::int64_t absent);
double static_number(const Attributes& attributes, std::string_view name, double absent);

// A possibly negative axis, or list of distinct axes, as 0..rank-1 in ascending order; fails with the node's name.
int axis_of(const InferContext& c, std::int64_t axis, int rank);
Ints axes_of(const InferContext& c, const Ints& axes, int rank);
Ints all_axes(int rank);

void expect_rank(const InferContext& c, int input, int rank);
void expect_shape(const InferContext& c, int input, const Shape& shape);
void expect_dtype(const InferContext& c, int input, DType dtype);
// numpy's broadcast of inputs first..last-1; fails with the node's name.
Shape broadcast_inputs(const InferContext& c, int first, int last);

void infer_same(InferContext& c);        // output 0 is like input 0
void infer_broadcast(InferContext& c);   // inputs of one dtype, broadcast
void infer_comparison(InferContext& c);  // the same, giving booleans

// Of piecewise constant operators: nothing flows back.
void zero_gradient(GradientContext& g);

// For a constant that a rule makes, as long as an axis or as several of them: fails where it would take more than 512 MiB.
Tensor bounded_tensor(const TensorType& type);

// dims[axis] = size
Shape with_dim(Shape shape, int axis, std::int64_t size);
std::int64_t product(const Shape& shape, int first, int last);
// x[begin:end] along one axis.
ValueId slice_axis(GraphBuilder& b, ValueId x, int axis, std::int64_t begin, std::int64_t end);
ValueId cast(GraphBuilder& b, ValueId x, DType to);
// [C] as [C,1,1,...], to broadcast along axis 1 of a tensor of `rank`.
ValueId per_channel(GraphBuilder& b, ValueId x, int rank);

// sum^(1/p), of a sum of powers p of magnitudes; where that is 0 so is the gradient, as PyTorch's norms have it.
ValueId norm_of(GraphBuilder& b, ValueId sum, double p);

// Operator::flops of `each` for an element of operand 0.
template <int each>
double flops_an_element(const Graph& graph, const Node& node) {
  return each * static_cast<double>(graph[node.inputs[0]].type.shape.elements());
}

// Of y = x·wᵀ + b, operands x, w and at `bias` b: rows, columns or what is summed over is split.
void place_inner_product(PlaceContext& c, int bias);

}  // namespace tandem
