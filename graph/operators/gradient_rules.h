// What the shape rules of gradients' operators share. Such an operator may come from a plan file: its kernels rely on it that
// what it is given belongs together.
#pragma once
#include "graph/operators/rules.h"

namespace tandem {

// The input `dy` is what operator `forward` makes of operands of these types with the node's attributes, which must stand as
// its rule leaves them.
void expect_gradient_of(InferContext& c, std::string_view forward, const std::vector<TensorType>& operands, int dy);
// The same of what the attribute input_shape says, and the inputs first and later; gives output 0 that shape.
void infer_gradient(InferContext& c, std::string_view forward, int first);

// Inputs first..last-1, where given, are of the type of input 0.
void expect_same(const InferContext& c, int first, int last);

}  // namespace tandem
