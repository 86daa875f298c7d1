#include "importer/edit/write_out_call.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/option.h"
#include "importer/edit/message_values.h"
#include "importer/flat/inline_scope.h"
#include "importer/message/limits.h"

namespace tandem {
namespace {

class Call {
 public:
  Call(const onnx::ModelProto& model, const onnx::FunctionProto& function, const onnx::NodeProto& call, int at)
      : function_(function), call_(call) {
    take_names(model.graph(), taken_);
    prefix_ = concat(call.name().empty() ? concat(call.op_type(), '#', at) : call.name(), '/');
  }

  std::vector<onnx::NodeProto> nodes() {
    for (int i = 0; i < function_.input_size(); ++i) names_[function_.input(i)] = i < call_.input_size() ? call_.input(i) : "";
    std::vector<onnx::NodeProto> list, identities;
    for (int i = 0; i < call_.output_size() && i < function_.output_size(); ++i) {
      const std::string &result = call_.output(i), &inner = function_.output(i);
      if (result.empty()) continue;
      if (names_.emplace(inner, result).second) continue;
      onnx::NodeProto same;  // an operand handed on, or one value under two names
      same.set_name(prefix_ + inner);
      same.set_op_type("Identity");
      same.add_input(names_[inner]);
      same.add_output(result);
      identities.push_back(std::move(same));
    }
    for (int i = 0; i < function_.node_size(); ++i) list.push_back(node(function_.node(i), i));
    list.insert(list.end(), std::make_move_iterator(identities.begin()), std::make_move_iterator(identities.end()));
    return list;
  }

 private:
  const std::string& made(const std::string& name) {
    const auto [it, fresh] = names_.emplace(name, "");
    if (!fresh || name.empty()) return it->second;
    std::string own = prefix_ + name;
    for (int k = 2; !taken_.insert(own).second; ++k) own = concat(prefix_, name, '~', k);
    return it->second = own;
  }

  onnx::NodeProto node(const onnx::NodeProto& from, int at) {
    onnx::NodeProto to = from;
    to.set_name(prefix_ + (from.name().empty() ? concat(from.op_type(), '#', at) : from.name()));
    for (auto& name : *to.mutable_input()) name = std::string(made(name));
    for (auto& name : *to.mutable_output()) name = std::string(made(name));
    to.clear_attribute();
    for (const auto& given : from.attribute()) {
      const onnx::AttributeProto* value = resolved(given);
      if (!value) continue;  // the caller left it out
      auto& attribute = *to.add_attribute();
      attribute = *value;
      attribute.set_name(given.name());
      if (attribute.has_g()) graph(*attribute.mutable_g());
    }
    return to;
  }

  const onnx::AttributeProto* resolved(const onnx::AttributeProto& given) const {
    if (given.ref_attr_name().empty()) return &given;
    for (const auto* list : {&call_.attribute(), &function_.attribute_proto()})
      for (const auto& a : *list)
        if (a.name() == given.ref_attr_name()) return &a;
    return nullptr;
  }

  void graph(onnx::GraphProto& inner) {
    for (auto& i : *inner.mutable_input()) i.set_name(made(i.name()));
    for (auto& i : *inner.mutable_initializer()) i.set_name(made(i.name()));
    for (auto& v : *inner.mutable_value_info()) v.set_name(made(v.name()));
    for (int i = 0; i < inner.node_size(); ++i) *inner.mutable_node(i) = node(onnx::NodeProto(inner.node(i)), i);
    for (auto& o : *inner.mutable_output()) o.set_name(made(o.name()));
  }

  const onnx::FunctionProto& function_;
  const onnx::NodeProto& call_;
  std::string prefix_;
  std::set<std::string> taken_;
  std::map<std::string, std::string> names_{{"", ""}};  // of the function's values, in the model's graph
};

std::int64_t version_of(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports, const std::string& domain) {
  for (const auto& import : imports)
    if (domain_of(import.domain()) == domain) return import.version();
  return -1;
}

// What the function's nodes mean must be what they mean in the model's own graph.
void take_opsets(onnx::ModelProto& model, const onnx::FunctionProto& function, const std::string& call) {
  std::set<std::string> domains;
  for (const auto& node : function.node())
    if (!called_by(node, model)) domains.insert(domain_of(node.domain()));
  for (const std::string& domain : domains) {
    const std::int64_t inner = version_of(function.opset_import(), domain), outer = version_of(model.opset_import(), domain);
    if (inner < 0 || inner == outer) continue;
    if (outer >= 0)
      fail(ExitCode::usage, option("head"), ": local function '", function.name(), "', called by '", call, "', is of opset ", inner, " of ",
           domain.empty() ? "ai.onnx" : domain, ", the model of ", outer, ": its nodes cannot stand in the model's own graph");
    auto& import = *model.add_opset_import();
    import.set_domain(domain);
    import.set_version(inner);
  }
}

}  // namespace

const onnx::FunctionProto* called_by(const onnx::NodeProto& node, const onnx::ModelProto& model) {
  for (const auto& f : model.functions())
    if (f.name() == node.op_type() && domain_of(f.domain()) == domain_of(node.domain()) && f.overload() == node.overload()) return &f;
  return nullptr;
}

void write_out_call(onnx::ModelProto& model, int at) {
  onnx::GraphProto& graph = *model.mutable_graph();
  const onnx::NodeProto call = graph.node(at);
  const onnx::FunctionProto& function = *called_by(call, model);
  if (graph.node_size() + function.node_size() > limits::nodes)
    fail(ExitCode::usage, option("head"), ": '", call.name(), "' calls local functions that make more than ", limits::nodes, " nodes");
  take_opsets(model, function, call.name());
  std::vector<onnx::NodeProto> nodes = Call(model, function, call, at).nodes();
  auto& list = *graph.mutable_node();
  google::protobuf::RepeatedPtrField<onnx::NodeProto> whole;
  whole.Reserve(list.size() + static_cast<int>(nodes.size()));
  for (int i = 0; i < list.size(); ++i) {
    if (i != at) whole.Add()->Swap(list.Mutable(i));
    if (i == at)
      for (auto& node : nodes) whole.Add()->Swap(&node);
  }
  list.Swap(&whole);
}

}  // namespace tandem
