// A message walked once: names, local functions and subgraphs resolved.
#pragma once
#include "importer/flat/flat_model.h"

namespace tandem {

// `bytes`: of the file. The result points into `model`.
FlatModel inline_functions(const onnx::ModelProto& model, std::int64_t bytes, ExternalData& external);

}  // namespace tandem
