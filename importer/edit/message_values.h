// Who makes and who reads the values of a file's own graph, and what of them the file holds, while the message is changed.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "importer/message/class_axis.h"
#include "tandem_onnx.pb.h"

namespace tandem {

std::string name_of(const onnx::NodeProto& node);  // "Gemm 'fc'"
const onnx::AttributeProto* attribute_of(const onnx::NodeProto& node, std::string_view name);
std::int64_t integer_of(const onnx::NodeProto& node, std::string_view name, std::int64_t otherwise);
void take_names(const onnx::GraphProto& graph, std::set<std::string>& names);  // of all values, those within bodies too
inline bool is_op(const onnx::NodeProto& n, const char* op) { return n.domain().empty() && n.op_type() == op; }

class MessageValues {
 public:
  explicit MessageValues(onnx::ModelProto& model) : model_(model), graph_(*model.mutable_graph()) { index(); }

  void index();  // anew, where nodes have moved
  int maker(const std::string& value) const {  // its place among the nodes; -1: none
    const auto it = makers_.find(value);
    return it == makers_.end() ? -1 : it->second;
  }
  const std::vector<int>& readers(const std::string& value) const {
    const auto it = readers_.find(value);
    return it == readers_.end() ? none_ : it->second;
  }
  bool is_initializer(const std::string& value) const { return initializers_.contains(value); }
  onnx::TensorProto& initializer(const std::string& value) { return *graph_.mutable_initializer(initializers_.at(value)); }
  const onnx::NodeProto* constant_node(const std::string& value) const;  // Constant, or ConstantOfShape of a known shape

  // Dimensions of what the file holds, as an initializer or by a Constant or ConstantOfShape node.
  std::optional<std::vector<std::int64_t>> dims(const std::string& value) const;
  const onnx::TensorProto* constant(const std::string& value) const;
  IntegersOf integers_of(const onnx::NodeProto& node) const;

  onnx::TensorProto& add(onnx::TensorProto tensor);  // an initializer; until IR version 4 an input, too
  // The same tensor as an initializer, without the values that a ConstantOfShape would give it; the node goes with drop_replaced.
  onnx::TensorProto& take(const std::string& value);
  onnx::TensorProto& copy(const std::string& value, const std::string& name);  // as `name`
  void drop_replaced();

 private:
  onnx::ModelProto& model_;
  onnx::GraphProto& graph_;
  std::map<std::string, int> makers_, initializers_;
  std::map<std::string, std::vector<int>> readers_;
  std::set<std::string> replaced_;
  const std::vector<int> none_;
};

}  // namespace tandem
