// What Constant and ConstantOfShape hold, and the widening of a model to double.
#pragma once
#include "importer/draft.h"

namespace tandem {

Tensor constant_value(const Attributes& attributes);  // of a Constant; fails for strings and sparse values
// Fails where the shape is not known, or where the tensor would take more than `limit` bytes.
Tensor filled_tensor(const Graph& graph, const Draft& draft, std::int64_t limit);
// float32 tensors in attributes, and float32 as a dtype that an attribute asks for, become float64.
void widen(Attributes& attributes, const std::string& op);

}  // namespace tandem
