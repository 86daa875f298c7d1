// What Constant and ConstantOfShape hold, and the widening of a model to double.
#pragma once
#include "importer/draft.h"

namespace tandem {

Tensor constant_value(const Attributes& attributes);  // of a Constant; fails for strings and sparse values

// What a ConstantOfShape gives.
struct Fill {
  Shape shape;
  Tensor element;
};
Fill fill_of(const Graph& graph, const Draft& draft);  // fails where the shape is not known
Tensor filled(const Fill& fill);
// float32 tensors in attributes, and float32 as a dtype that an attribute asks for, become float64.
void widen(Attributes& attributes, const Operator* op);

}  // namespace tandem
