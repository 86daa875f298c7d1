// What PyTorch's exporter and ONNX Script's optimizer note in a file, for models that tests make.
#pragma once
#include <string>

#include "tests/importer/model_builder.h"

namespace tandem::test {

inline void add_note(google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>& notes, const std::string& key,
                     const std::string& value) {
  auto& entry = *notes.Add();
  entry.set_key(key);
  entry.set_value(value);
}

// "p_w: PARAMETER target='w'\n" and so on.
inline void sign(Model& m, const std::string& signature) {
  add_note(*m.proto.mutable_graph()->mutable_metadata_props(), "pkg.torch.export.ExportedProgram.graph_signature",
           "\n# inputs\n" + signature);
}

inline onnx::ValueInfoProto& described(Model& m, const std::string& value) {
  onnx::ValueInfoProto& info = *m.proto.mutable_graph()->add_value_info();
  info.set_name(value);
  return info;
}

// A tensor is a PARAMETER or BUFFER, which calls name `call`.
inline void state_kind(Model& m, const std::string& tensor, const std::string& kind, const std::string& call) {
  onnx::ValueInfoProto& info = described(m, tensor);
  add_note(*info.mutable_metadata_props(), "pkg.torch.export.graph_signature.InputSpec.kind", kind);
  add_note(*info.mutable_metadata_props(), "pkg.torch.onnx.original_node_name", call);
}

// `from`: "['w', 'val_1']".
inline void state_computed(Model& m, const std::string& tensor, const std::string& from) {
  add_note(*described(m, tensor).mutable_metadata_props(), "pkg.onnxscript.optimizer.folded_from", from);
}

// The node comes from aten.TARGET(OPERANDS).
inline onnx::NodeProto of_call(onnx::NodeProto node, const std::string& target, const std::string& operands,
                               const std::string& options = "") {
  add_note(*node.mutable_metadata_props(), "pkg.torch.onnx.fx_node",
           "%" + node.output(0) + " : [num_users=1] = call_function[target=torch.ops.aten." + target + "](args = (" + operands + "), kwargs = {" + options + "})");
  return node;
}

}  // namespace tandem::test
