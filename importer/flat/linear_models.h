// Operators of ai.onnx.ml whose weights are attributes.
#pragma once
#include "importer/flat/flat_model.h"

namespace tandem {

// Makes tensors of these attributes, and products of the operators.
void lift_linear_models(FlatModel& model);

}  // namespace tandem
