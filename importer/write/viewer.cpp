// onnx_of: any graph, internal operators included, for an ONNX viewer; and runnable_onnx_of, with its weights.
#include <algorithm>
#include <map>
#include <set>

#include "graph/operator.h"
#include "importer/message/limits.h"
#include "importer/message/tensor_data.h"
#include "importer/model_file.h"
#include "importer/runnable_graph.h"
#include "tandem_onnx.pb.h"

namespace tandem {
namespace {

constexpr std::int64_t ir_version = 10, opset = 22;
constexpr std::size_t constant_bytes = 1024;  // larger ones are shown as inputs: a viewer has no use for their values
enum class Values { small_constants, all };

void set_type(const TensorType& type, onnx::ValueInfoProto& info) {
  auto& tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(static_cast<int>(type.dtype));
  tensor.mutable_shape();
  for (const std::int64_t d : type.shape) tensor.mutable_shape()->add_dim()->set_dim_value(d);
}

void set_tensor(const Tensor& tensor, onnx::TensorProto& proto) {
  proto.set_data_type(static_cast<int>(tensor.dtype()));
  for (const std::int64_t d : tensor.shape()) proto.add_dims(d);
  store(tensor, DataForm::raw, proto);
}

struct AttributeWriter {
  onnx::AttributeProto& proto;
  void operator()(std::int64_t v) const { proto.set_type(onnx::AttributeProto::INT); proto.set_i(v); }
  void operator()(float v) const { proto.set_type(onnx::AttributeProto::FLOAT); proto.set_f(v); }
  void operator()(const std::string& v) const { proto.set_type(onnx::AttributeProto::STRING); proto.set_s(v); }
  void operator()(const Ints& v) const {
    proto.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t i : v) proto.add_ints(i);
  }
  void operator()(const Floats& v) const {
    proto.set_type(onnx::AttributeProto::FLOATS);
    for (const float f : v) proto.add_floats(f);
  }
  void operator()(const Strings& v) const {
    proto.set_type(onnx::AttributeProto::STRINGS);
    for (const std::string& s : v) proto.add_strings(s);
  }
  void operator()(const Tensor& v) const { proto.set_type(onnx::AttributeProto::TENSOR); set_tensor(v, *proto.mutable_t()); }
};

// What a static operand was before the importer made an attribute of it.
Tensor operand_of(const AttributeValue& value) {
  struct Visitor {
    Tensor operator()(std::int64_t v) const { return Tensor::scalar(v); }
    Tensor operator()(float v) const { return Tensor::scalar(v); }
    Tensor operator()(const Ints& v) const { return Tensor::of<std::int64_t>(Shape{static_cast<std::int64_t>(v.size())}, v); }
    Tensor operator()(const Floats& v) const { return Tensor::of<float>(Shape{static_cast<std::int64_t>(v.size())}, v); }
    Tensor operator()(const Tensor& v) const { return v; }
    Tensor operator()(const std::string&) const { return {}; }
    Tensor operator()(const Strings&) const { return {}; }
  };
  return std::visit(Visitor{}, value);
}

// Attributes that the planner gives to ONNX's operators. ONNX's own definition has no room for them, so a node with
// one of them stands in the internal domain: another reader then does not take it for what it is not.
struct PlannerAttribute {
  std::string_view op;  // empty: any
  std::string_view attribute;
};
constexpr PlannerAttribute planner_attributes[] = {
    {"", "activation"}, {"MatMul", "transA"}, {"MatMul", "transB"}, {"BatchNormalization", "frozen"}};

std::string_view domain_of(const Node& n) {
  const bool extended = std::ranges::any_of(planner_attributes, [&](const PlannerAttribute& row) {
    return (row.op.empty() || row.op == n.op->name) && n.attributes.has(row.attribute);
  });
  return extended ? std::string_view("tandem") : n.op->domain;
}

class Viewer {
 public:
  Viewer(const Graph& graph, Values values) : graph_(graph), values_(values) {
    std::set<std::string> taken;
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
      std::string name = graph.values[i].name;
      if (name.empty() || !taken.insert(name).second) taken.insert(name = concat(graph.values[i].name, '#', i));
      names_.push_back(std::move(name));
    }
  }

  std::string run() {
    model_.set_ir_version(ir_version);
    model_.set_producer_name("tandem");
    add_opset("", opset);
    std::set<std::string_view> domains{"tandem"};
    for (const Node& n : graph_.nodes)
      if (!n.op->domain.empty()) domains.insert(n.op->domain);
    for (const std::string_view domain : domains) add_opset(domain, 1);
    out().set_name(graph_.name.empty() ? "graph" : graph_.name);
    for (std::size_t i = 0; i < graph_.values.size(); ++i) value(graph_.values[i], names_[i]);
    for (const Node& n : graph_.nodes) node(n);
    for (const ValueId id : graph_.outputs) info(*out().add_output(), graph_[id], name(id));
    if (model_.ByteSizeLong() > static_cast<std::size_t>(limits::model_bytes)) fail("the graph is too large for one ONNX file");
    return model_.SerializeAsString();
  }

 private:
  onnx::GraphProto& out() { return *model_.mutable_graph(); }
  const std::string& name(ValueId id) const { return names_[static_cast<std::size_t>(id.index)]; }

  void add_opset(std::string_view domain, std::int64_t version) {
    auto& import = *model_.add_opset_import();
    import.set_domain(std::string(domain));
    import.set_version(version);
  }

  static void info(onnx::ValueInfoProto& proto, const Value& v, const std::string& name) {
    proto.set_name(name);
    set_type(v.type, proto);
  }

  bool holds_values(const Value& v) const {
    if (values_ == Values::all) return v.data && v.data->type() == v.type;
    return v.kind == ValueKind::constant && v.data->bytes().size() <= constant_bytes;
  }

  void value(const Value& v, const std::string& name) {
    if (v.kind == ValueKind::activation) {
      if (v.producer.present() && v.type.dtype != DType::undefined) info(*out().add_value_info(), v, name);
    } else if (holds_values(v)) {
      auto& tensor = *out().add_initializer();
      tensor.set_name(name);
      set_tensor(*v.data, tensor);
    } else {
      info(*out().add_input(), v, name);
    }
  }

  void node(const Node& n) {
    onnx::NodeProto& proto = *out().add_node();
    proto.set_name(n.name);
    proto.set_op_type(std::string(n.op->name));
    proto.set_domain(std::string(domain_of(n)));
    std::string origin;
    for (const std::string& o : n.origin) origin += origin.empty() ? o : ", " + o;
    if (!origin.empty()) proto.set_doc_string("from " + origin);
    for (const ValueId in : n.inputs) proto.add_input(in.present() ? name(in) : "");
    for (const ValueId o : n.outputs) proto.add_output(o.present() ? name(o) : "");
    for (const auto& [key, v] : n.attributes)
      if (!operand(n, key, v, proto)) {
        auto& attribute = *proto.add_attribute();
        attribute.set_name(key);
        std::visit(AttributeWriter{attribute}, v);
      }
  }

  // Gives a static operand its place among the inputs back.
  bool operand(const Node& n, const std::string& key, const AttributeValue& v, onnx::NodeProto& proto) {
    for (const StaticOperand& o : n.op->static_operands) {
      if (o.attribute != key || !operand_of(v).defined()) continue;
      while (proto.input_size() <= o.input) proto.add_input("");
      const std::string input = concat(n.name, '.', key, '#', out().initializer_size());
      proto.set_input(o.input, input);
      auto& tensor = *out().add_initializer();
      tensor.set_name(input);
      set_tensor(operand_of(v), tensor);
      return true;
    }
    return false;
  }

  const Graph& graph_;
  const Values values_;
  std::vector<std::string> names_;
  onnx::ModelProto model_;
};

}  // namespace

std::string onnx_of(const Graph& graph) {
  return Viewer(graph, Values::small_constants).run();
}

std::string runnable_onnx_of(const Graph& graph) {
  return Viewer(graph, Values::all).run();
}

}  // namespace tandem
