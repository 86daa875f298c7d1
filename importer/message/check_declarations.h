// What a model declares twice, and so that one could not know which is meant.
#pragma once
#include <string>
#include <vector>

#include "importer/message/onnx_messages.h"

namespace tandem {

// A line each: names that are there twice among the model's inputs, its outputs, the opsets that it or a function imports, a
// function's inputs, outputs and attributes, and a node's attributes; values declared with two types; inputs that are
// initializers of another type; metadata with two values for a key. Two nodes may go by one name, and a declaration may be
// repeated: exporters write these. Initializers and values of nodes are checked where they are resolved (inline_functions.cpp).
std::vector<std::string> twice_declared(const onnx::ModelProto& model);

}  // namespace tandem
