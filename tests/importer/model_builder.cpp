#include "tests/importer/model_builder.h"

#include <stdlib.h>

#include <fstream>
#include <sstream>

#include "graph/operator.h"

namespace tandem::test {
namespace {

void set_dims(onnx::TensorProto& tensor, const std::string& name, const std::vector<std::int64_t>& dims, int dtype) {
  tensor.set_name(name);
  tensor.set_data_type(dtype);
  for (const std::int64_t d : dims) tensor.add_dims(d);
}

struct AttributeSetter {
  onnx::AttributeProto& a;
  void operator()(std::int64_t v) const { a.set_type(onnx::AttributeProto::INT); a.set_i(v); }
  void operator()(float v) const { a.set_type(onnx::AttributeProto::FLOAT); a.set_f(v); }
  void operator()(const std::string& v) const {
    if (v.starts_with('@')) {
      a.set_ref_attr_name(v.substr(1));
    } else {
      a.set_type(onnx::AttributeProto::STRING);
      a.set_s(v);
    }
  }
  void operator()(const std::vector<std::int64_t>& v) const {
    a.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t i : v) a.add_ints(i);
  }
  void operator()(const std::vector<float>& v) const {
    a.set_type(onnx::AttributeProto::FLOATS);
    for (const float f : v) a.add_floats(f);
  }
  void operator()(const onnx::TensorProto& v) const { a.set_type(onnx::AttributeProto::TENSOR); *a.mutable_t() = v; }
  void operator()(const onnx::GraphProto& v) const { a.set_type(onnx::AttributeProto::GRAPH); *a.mutable_g() = v; }
};

}  // namespace

onnx::TensorProto float_tensor(const std::string& name, const std::vector<std::int64_t>& dims, const std::vector<float>& values) {
  onnx::TensorProto t;
  set_dims(t, name, dims, onnx::TensorProto::FLOAT);
  t.set_raw_data(values.data(), values.size() * sizeof(float));
  return t;
}

onnx::TensorProto filled_tensor(const std::string& name, const std::vector<std::int64_t>& dims, float value) {
  return float_tensor(name, dims, std::vector<float>(static_cast<std::size_t>(Shape(dims).elements()), value));
}

onnx::TensorProto dims_only(const std::string& name, const std::vector<std::int64_t>& dims) {
  onnx::TensorProto t;
  set_dims(t, name, dims, onnx::TensorProto::FLOAT);
  return t;
}

onnx::TensorProto int_tensor(const std::string& name, const std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& values) {
  onnx::TensorProto t;
  set_dims(t, name, dims, onnx::TensorProto::INT64);
  for (const std::int64_t v : values) t.add_int64_data(v);
  return t;
}

onnx::TensorProto external_tensor(const std::string& name, const std::vector<std::int64_t>& dims,
                                  const std::vector<std::pair<std::string, std::string>>& entries) {
  onnx::TensorProto t = dims_only(name, dims);
  t.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : entries) {
    auto& e = *t.add_external_data();
    e.set_key(key);
    e.set_value(value);
  }
  return t;
}

onnx::NodeProto node(const std::string& op, const Names& inputs, const Names& outputs, const AttributeList& attributes,
                     const std::string& domain) {
  onnx::NodeProto n;
  n.set_op_type(op);
  n.set_domain(domain);
  n.set_name(outputs.empty() ? op : "node_" + outputs[0]);
  for (const auto& in : inputs) n.add_input(in);
  for (const auto& out : outputs) n.add_output(out);
  for (const auto& [name, value] : attributes) {
    auto& a = *n.add_attribute();
    a.set_name(name);
    std::visit(AttributeSetter{a}, value);
  }
  return n;
}

onnx::FunctionProto function(const std::string& name, const Names& inputs, const Names& outputs, const std::vector<onnx::NodeProto>& nodes,
                             const Names& attributes) {
  onnx::FunctionProto f;
  f.set_name(name);
  f.set_domain(function_domain);
  for (const auto& in : inputs) f.add_input(in);
  for (const auto& out : outputs) f.add_output(out);
  for (const auto& a : attributes) f.add_attribute(a);
  for (const auto& n : nodes) *f.add_node() = n;
  auto& import = *f.add_opset_import();
  import.set_version(17);
  f.add_opset_import()->set_domain(function_domain);
  return f;
}

onnx::GraphProto branch(const std::vector<onnx::NodeProto>& nodes, const Names& outputs) {
  onnx::GraphProto g;
  g.set_name("branch");
  for (const auto& n : nodes) *g.add_node() = n;
  for (const auto& out : outputs) g.add_output()->set_name(out);
  return g;
}

Model::Model(std::int64_t opset, std::int64_t ir) {
  proto.set_ir_version(ir);
  proto.add_opset_import()->set_version(opset);
  auto& local = *proto.add_opset_import();
  local.set_domain(function_domain);
  local.set_version(1);
  proto.mutable_graph()->set_name("test");
}

Model& Model::input(const std::string& name, const std::string& dims, int dtype) {
  auto& value = *proto.mutable_graph()->add_input();
  value.set_name(name);
  auto& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(dtype);
  auto& shape = *type.mutable_shape();
  std::istringstream stream(dims);
  for (std::string dim; std::getline(stream, dim, ',');) {
    auto& d = *shape.add_dim();
    if (dim.find_first_not_of("-0123456789") == std::string::npos) {
      d.set_dim_value(std::stoll(dim));
    } else if (dim != "?") {
      d.set_dim_param(dim);
    }
  }
  return *this;
}

Model& Model::output(const std::string& name) {
  proto.mutable_graph()->add_output()->set_name(name);
  return *this;
}
Model& Model::add(const onnx::TensorProto& initializer) {
  *proto.mutable_graph()->add_initializer() = initializer;
  return *this;
}
Model& Model::add(const onnx::NodeProto& n) {
  *proto.mutable_graph()->add_node() = n;
  return *this;
}
Model& Model::add(const onnx::FunctionProto& f) {
  *proto.add_functions() = f;
  return *this;
}

std::string Model::report(const ImportOptions& options) const {
  return report_of_bytes(bytes(), options);
}

std::string report_of_bytes(const std::string& bytes, const ImportOptions& options) {
  try {
    ModelFile::parse(bytes, {}).graph(options);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

Shape shape_of(const Graph& graph, std::string_view value) {
  const auto id = graph.find(value);
  if (!id) fail("no value '", value, "' in the graph");
  return graph[*id].type.shape;
}

std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> ops;
  for (const Node& n : graph.nodes) ops.emplace_back(n.op->name);
  return ops;
}

std::vector<std::string> names_of(const Graph& graph, ValueKind kind) {
  std::vector<std::string> names;
  for (const Value& v : graph.values)
    if (v.kind == kind) names.push_back(v.name);
  return names;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "tandem-test-XXXXXX").string();
  if (!::mkdtemp(pattern.data())) fail(ExitCode::io, "cannot make a folder like ", pattern);
  path_ = pattern;
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string read_whole(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace tandem::test
