// What PyTorch's exporter and ONNX Script's optimizer note in a file, for models that tests make.
#pragma once
#include <string>
#include <vector>

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

inline constexpr const char* kind_note = "pkg.torch.export.graph_signature.InputSpec.kind";
// A tensor is a PARAMETER or BUFFER, which calls name `call`.
inline void state_kind(Model& m, const std::string& tensor, const std::string& kind, const std::string& call = "") {
  onnx::ValueInfoProto& info = described(m, tensor);
  add_note(*info.mutable_metadata_props(), kind_note, kind);
  if (!call.empty()) add_note(*info.mutable_metadata_props(), "pkg.torch.onnx.original_node_name", call);
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

// x * p * w of a module with the parameters p and, where it is given, `other`; `call` is what the second product's note says of its
// operands.
inline void signed_products(Model& m, const std::string& other, const std::string& call, const onnx::TensorProto& w) {
  m.add(float_tensor("p", {8}, {1, 2, 3, 4, 5, 6, 7, 9})).add(w).add(node("Mul", {"x", "p"}, {"h"}));
  const onnx::NodeProto product = node("Mul", {"h", w.name()}, {"y"});
  m.add(call.empty() ? product : of_call(product, "mul.Tensor", "%h, " + call));
  state_kind(m, "p", "PARAMETER", "p_p");
  sign(m, "p_p: PARAMETER target='p'\n" + (other.empty() ? "" : "p_other: PARAMETER target='" + other + "'\n") +
              "b_w: BUFFER target='w' persistent=True\nx: USER_INPUT\n");
}

// Values that follow no rule.
inline std::vector<float> arbitrary(std::size_t n, unsigned state = 7) {
  std::vector<float> values;
  for (std::size_t i = 0; i < n; ++i) {
    state = state * 1664525U + 1013904223U;
    values.push_back(static_cast<float>(state >> 8) / 16777216.0F - 0.5F);
  }
  return values;
}
inline onnx::TensorProto vector_of(const std::vector<float>& values, const std::string& name = "w") {
  return float_tensor(name, {static_cast<std::int64_t>(values.size())}, values);
}

}  // namespace tandem::test
