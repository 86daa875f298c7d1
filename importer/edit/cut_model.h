// A model that ends at other values than its outputs.
#pragma once
#include <string>
#include <vector>

#include "importer/message/onnx_messages.h"

namespace tandem {

// The model's outputs become `values`, in this order: names of values of its own graph, or of nodes, whose first output is meant. Nodes and
// initializers that none of them needs go. A value within a local function ("CALL/VALUE") is reached by writing the call out. Returns
// a line that says what is left out. Fails (usage) on a name that is none of these, with the nearest.
std::string cut_model(onnx::ModelProto& model, const std::vector<std::string>& values);

}  // namespace tandem
