// What Constant and ConstantOfShape hold, and the types of floats that attributes hold or ask for.
#pragma once
#include <functional>

#include "importer/upgrade/draft.h"

namespace tandem {

Tensor constant_value(const Attributes& attributes);  // of a Constant; fails for strings and sparse values

// What a ConstantOfShape gives.
struct Fill {
  Shape shape;
  Tensor element;
};
Fill fill_of(const Graph& graph, const Draft& draft);  // fails where the shape is not known
Tensor filled(const Fill& fill);
// Tensors of floats in attributes, and floats as a dtype that an attribute asks for, become of the type that is wanted of them.
void retype_floats(Attributes& attributes, const Operator* op, const std::function<DType(DType)>& wanted);

}  // namespace tandem
