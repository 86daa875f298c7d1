#include "importer/edit/message_values.h"

#include <cstring>

#include "base/error.h"
#include "importer/message/drop_orphans.h"

namespace tandem {
namespace {

std::vector<std::int64_t> int64s(const onnx::TensorProto& t) {
  if (t.data_type() != onnx::TensorProto::INT64) return {};
  if (!t.int64_data().empty()) return {t.int64_data().begin(), t.int64_data().end()};
  std::vector<std::int64_t> values(t.raw_data().size() / 8);
  std::memcpy(values.data(), t.raw_data().data(), 8 * values.size());
  return values;
}

}  // namespace

void take_names(const onnx::GraphProto& graph, std::set<std::string>& names) {
  for (const auto& i : graph.initializer()) names.insert(i.name());
  for (const auto& i : graph.input()) names.insert(i.name());
  for (const auto& node : graph.node()) {
    names.insert(node.output().begin(), node.output().end());
    for (const auto& attribute : node.attribute())
      if (attribute.has_g()) take_names(attribute.g(), names);
  }
}

std::string name_of(const onnx::NodeProto& node) {
  return concat(node.op_type(), " '", node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name(), "'");
}
const onnx::AttributeProto* attribute_of(const onnx::NodeProto& node, std::string_view name) {
  for (const auto& a : node.attribute())
    if (a.name() == name) return &a;
  return nullptr;
}
std::int64_t integer_of(const onnx::NodeProto& node, std::string_view name, std::int64_t otherwise) {
  const auto* a = attribute_of(node, name);
  return a ? a->i() : otherwise;
}

void MessageValues::index() {
  makers_.clear(), readers_.clear(), initializers_.clear();
  for (int i = 0; i < graph_.node_size(); ++i) {
    for (const auto& out : graph_.node(i).output())
      if (!out.empty()) makers_[out] = i;
    for (const auto& in : graph_.node(i).input())
      if (!in.empty()) readers_[in].push_back(i);
  }
  for (int i = 0; i < graph_.initializer_size(); ++i) initializers_[graph_.initializer(i).name()] = i;
}

const onnx::NodeProto* MessageValues::constant_node(const std::string& value) const {
  const int at = maker(value);
  const onnx::NodeProto* node = at < 0 ? nullptr : &graph_.node(at);
  if (!node || node->output_size() != 1) return nullptr;
  if (is_op(*node, "Constant")) return node;
  return is_op(*node, "ConstantOfShape") && node->input_size() == 1 && constant(node->input(0)) ? node : nullptr;
}

const onnx::TensorProto* MessageValues::constant(const std::string& value) const {
  if (const auto it = initializers_.find(value); it != initializers_.end()) return &graph_.initializer(it->second);
  const int at = maker(value);
  if (at < 0 || !is_op(graph_.node(at), "Constant")) return nullptr;
  const auto* tensor = attribute_of(graph_.node(at), "value");
  return tensor && tensor->has_t() ? &tensor->t() : nullptr;
}

std::optional<std::vector<std::int64_t>> MessageValues::dims(const std::string& value) const {
  if (const onnx::TensorProto* t = constant(value)) return std::vector<std::int64_t>(t->dims().begin(), t->dims().end());
  const onnx::NodeProto* node = constant_node(value);
  return node && is_op(*node, "ConstantOfShape") ? std::optional(int64s(*constant(node->input(0)))) : std::nullopt;
}

IntegersOf MessageValues::integers_of(const onnx::NodeProto& node) const {
  return [this, &node](int operand, const char* name) -> std::optional<std::vector<std::int64_t>> {
    if (const auto* a = attribute_of(node, name)) return std::vector<std::int64_t>(a->ints().begin(), a->ints().end());
    if (operand < 0 || operand >= node.input_size()) return std::nullopt;
    if (const onnx::TensorProto* t = constant(node.input(operand))) return int64s(*t);
    const onnx::NodeProto* maker = constant_node(node.input(operand));
    const auto* list = maker ? attribute_of(*maker, "value_ints") : nullptr;
    return list ? std::optional(std::vector<std::int64_t>(list->ints().begin(), list->ints().end())) : std::nullopt;
  };
}

onnx::TensorProto& MessageValues::add(onnx::TensorProto tensor) {
  if (model_.ir_version() < 4) {
    auto& input = *graph_.add_input();
    input.set_name(tensor.name());
    auto& type = *input.mutable_type()->mutable_tensor_type();
    type.set_elem_type(tensor.data_type());
    for (const auto d : tensor.dims()) type.mutable_shape()->add_dim()->set_dim_value(d);
  }
  initializers_[tensor.name()] = graph_.initializer_size();
  return *graph_.add_initializer() = std::move(tensor);
}

onnx::TensorProto& MessageValues::copy(const std::string& value, const std::string& name) {
  onnx::TensorProto tensor;
  if (const onnx::TensorProto* held = constant(value)) tensor = *held;
  if (!constant(value)) {
    const auto* element = attribute_of(*constant_node(value), "value");
    tensor.set_data_type(element && element->has_t() ? element->t().data_type() : static_cast<int>(onnx::TensorProto::FLOAT));
    const std::vector<std::int64_t> lengths = *dims(value);
    for (const std::int64_t d : lengths) tensor.add_dims(d);
  }
  tensor.set_name(name);
  return add(std::move(tensor));
}

onnx::TensorProto& MessageValues::take(const std::string& value) {
  if (is_initializer(value)) return initializer(value);
  replaced_.insert(value);
  return copy(value, value);
}

void MessageValues::drop_replaced() {
  std::set<std::string> shapes;
  auto& nodes = *graph_.mutable_node();
  int kept = 0;
  for (int i = 0; i < nodes.size(); ++i) {
    if (nodes[i].output_size() == 1 && replaced_.contains(nodes[i].output(0)))
      shapes.insert(nodes[i].input().begin(), nodes[i].input().end());
    else
      nodes.SwapElements(kept++, i);
  }
  nodes.DeleteSubrange(kept, nodes.size() - kept);
  drop_orphans(shapes, model_);
  replaced_.clear();
  index();
}

}  // namespace tandem
