// From a message to a flat model whose weights are known.
#pragma once
#include "importer/flat/flat_model.h"

namespace tandem {

// Reads, inlines, drops what no output needs, and finds the weights. The result points into `model`.
// `bytes`: of the file.
FlatModel flatten(const onnx::ModelProto& model, std::int64_t bytes, ExternalData& external, const WeightOptions& options);

}  // namespace tandem
