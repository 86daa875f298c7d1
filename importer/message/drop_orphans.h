// Initializers of a model that lost their last reader.
#pragma once
#include <set>
#include <string>

#include "importer/message/onnx_messages.h"

namespace tandem {

// Removes those of `candidates` that are initializers of the model's graph and that nothing names any more: no node,
// subgraph or training graph, no output. Until IR version 4 their entries among the inputs go too; later such an entry
// lets a caller give another value, and keeps its initializer.
void drop_orphans(const std::set<std::string>& candidates, onnx::ModelProto& model);

}  // namespace tandem
