// A call of a local function, replaced by the function's nodes in the file's own message.
#pragma once
#include <string>

#include "importer/message/onnx_messages.h"

namespace tandem {

// The function that a node calls; nullptr: it is an operator.
const onnx::FunctionProto* called_by(const onnx::NodeProto& node, const onnx::ModelProto& model);

// Node `at` of the model's own graph, a call, becomes the function's nodes, in its place. Nodes and values get the names that the
// importer gives them ("CALL/NAME"), the call's results keep theirs. Fails (usage) where the function is of another opset than the
// model, or where the graph would have more nodes than a file may.
void write_out_call(onnx::ModelProto& model, int at);

}  // namespace tandem
