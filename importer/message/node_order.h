// Nodes in the order in which they can be computed.
#pragma once
#include <vector>

#include "tandem_onnx.pb.h"

namespace tandem {

// Indices of the nodes, each after those whose outputs it (or a graph within it) reads; the file's order wherever that
// leaves a choice. Nodes in a cycle come last.
std::vector<int> computing_order(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes);

// ai.onnx.preview.training's Gradient: it names what it reads besides its inputs in the attributes xs, zs and y.
inline bool is_gradient(const onnx::NodeProto& node) {
  return node.op_type() == "Gradient" && (node.domain() == "ai.onnx.preview.training" || node.domain() == "tandem.training");
}

}  // namespace tandem
