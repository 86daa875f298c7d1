#include "importer/message/check_declarations.h"

#include <map>
#include <set>

#include "base/error.h"
#include "graph/dtype.h"
#include "graph/shape.h"
#include "tandem_onnx.pb.h"

namespace tandem {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

class Checker {
 public:
  std::vector<std::string> problems;

  void model(const onnx::ModelProto& model) {
    const onnx::GraphProto& graph = model.graph();
    names("input", graph.input(), &onnx::ValueInfoProto::name);
    names("output", graph.output(), &onnx::ValueInfoProto::name);
    imports("", model.opset_import());
    metadata(model);
    types(graph);
    nodes(graph.node());
    for (const auto& function : model.functions()) {
      const std::string of = concat("function '", function.name(), "': ");
      imports(of, function.opset_import());
      unique(concat(of, "input"), function.input());
      unique(concat(of, "output"), function.output());
      std::vector<std::string> attributes(function.attribute().begin(), function.attribute().end());
      for (const auto& attribute : function.attribute_proto()) attributes.push_back(attribute.name());
      unique(concat(of, "attribute"), attributes);
      nodes(function.node());
    }
  }

 private:
  template <class... Parts>
  void problem(const Parts&... parts) {
    problems.push_back(concat(parts...));
  }

  template <class Names>
  void unique(const std::string& what, const Names& list) {
    std::set<std::string> seen;
    for (const std::string& name : list)
      if (!seen.insert(name).second) problem(what, " '", name, "' is defined twice");
  }

  template <class List, class Name>
  void names(const std::string& what, const List& list, Name name) {
    std::vector<std::string> all;
    for (const auto& item : list) all.push_back((item.*name)());
    for (const std::string& n : all)
      if (n.empty()) problem("an ", what, " has no name");
    std::erase(all, "");
    unique(what, all);
  }

  template <class Imports>
  void imports(const std::string& where, const Imports& list) {
    std::map<std::string, std::int64_t> seen;
    for (const auto& import : list) {
      const std::string domain = import.domain().empty() ? "ai.onnx" : import.domain();
      if (const auto [first, fresh] = seen.emplace(domain, import.version()); !fresh)
        problem(where, "imports the domain '", domain, "' twice, as opset ", first->second, " and ", import.version());
    }
  }

  void metadata(const onnx::ModelProto& model) {
    std::map<std::string, std::string> seen;
    for (const auto& entry : model.metadata_props())
      if (const auto [first, fresh] = seen.emplace(entry.key(), entry.value()); !fresh && first->second != entry.value())
        problem("metadata '", entry.key(), "' is there twice, with two values");
  }

  // Exporters leave stale declarations of other shapes, and of inputs and outputs of other types, which nobody reads.
  void types(const onnx::GraphProto& graph) {
    std::map<std::string, int> seen;
    for (const auto& value : graph.value_info())
      if (const auto [first, fresh] = seen.emplace(value.name(), value.type().tensor_type().elem_type());
          !fresh && first->second != value.type().tensor_type().elem_type())
        problem("value_info declares '", value.name(), "' twice, as ", name_of(static_cast<DType>(first->second)), " and ",
                name_of(static_cast<DType>(value.type().tensor_type().elem_type())));
    std::map<std::string, const onnx::TensorProto*> initializers;
    for (const auto& tensor : graph.initializer()) initializers.emplace(tensor.name(), &tensor);
    for (const auto& input : graph.input())
      if (const auto held = initializers.find(input.name()); held != initializers.end() && input.type().has_tensor_type())
        same_type(input, *held->second);
  }

  void same_type(const onnx::ValueInfoProto& input, const onnx::TensorProto& tensor) {
    const auto& type = input.type().tensor_type();
    const Shape shape(std::vector<std::int64_t>(tensor.dims().begin(), tensor.dims().end()));
    bool same = type.elem_type() == tensor.data_type() && (!type.has_shape() || type.shape().dim_size() == shape.rank());
    std::vector<std::int64_t> dims;
    for (int d = 0; d < type.shape().dim_size(); ++d) {
      const auto& dim = type.shape().dim(d);
      const bool known = dim.has_dim_value() && dim.dim_value() > 0;
      dims.push_back(known ? dim.dim_value() : -1);
      same = same && (!known || dim.dim_value() == shape[d]);
    }
    if (!same)
      problem("input '", input.name(), "' is declared as ", name_of(static_cast<DType>(type.elem_type())), Shape(dims),
              ", its initializer is ", name_of(static_cast<DType>(tensor.data_type())), shape);
  }

  void nodes(const Nodes& list) {
    for (const auto& node : list) {
      std::set<std::string> seen;
      for (const auto& attribute : node.attribute()) {
        if (!seen.insert(attribute.name()).second)
          problem(node.op_type(), " '", node.name(), "': attribute '", attribute.name(), "' is there twice");
        if (attribute.has_g()) nodes(attribute.g().node());
      }
    }
  }
};

}  // namespace

std::vector<std::string> twice_declared(const onnx::ModelProto& model) {
  Checker checker;
  checker.model(model);
  return std::move(checker.problems);
}

}  // namespace tandem
