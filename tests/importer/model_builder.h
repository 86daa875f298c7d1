// Small ONNX models for tests, a line a node.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "importer/model_file.h"
#include "tandem_onnx.pb.h"

namespace tandem::test {

using Names = std::vector<std::string>;
// An attribute; a string that begins with '@' refers to the function's attribute of that name.
using AttributeList = std::vector<std::pair<std::string, std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>,
                                                                      std::vector<float>, onnx::TensorProto, onnx::GraphProto>>>;

onnx::TensorProto float_tensor(const std::string& name, const std::vector<std::int64_t>& dims, const std::vector<float>& values);
onnx::TensorProto filled_tensor(const std::string& name, const std::vector<std::int64_t>& dims, float value = 0.5F);
onnx::TensorProto dims_only(const std::string& name, const std::vector<std::int64_t>& dims);
onnx::TensorProto int_tensor(const std::string& name, const std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& values);
onnx::TensorProto external_tensor(const std::string& name, const std::vector<std::int64_t>& dims,
                                  const std::vector<std::pair<std::string, std::string>>& entries);
onnx::NodeProto node(const std::string& op, const Names& inputs, const Names& outputs, const AttributeList& attributes = {},
                     const std::string& domain = "");
onnx::FunctionProto function(const std::string& name, const Names& inputs, const Names& outputs, const std::vector<onnx::NodeProto>& nodes,
                             const Names& attributes = {});
onnx::GraphProto branch(const std::vector<onnx::NodeProto>& nodes, const Names& outputs);

// dims: "N,3,H,4", each a number, a symbol, or ? for nothing at all; "" is a scalar.
class Model {
 public:
  explicit Model(std::int64_t opset = 17, std::int64_t ir = 8);
  Model& input(const std::string& name, const std::string& dims, int dtype = onnx::TensorProto::FLOAT);
  Model& output(const std::string& name);
  Model& add(const onnx::TensorProto& initializer);
  Model& add(const onnx::NodeProto& node);
  Model& add(const onnx::FunctionProto& function);

  std::string bytes() const { return proto.SerializeAsString(); }
  ModelFile parse(const std::filesystem::path& folder = {}) const { return ModelFile::parse(bytes(), folder); }
  Graph graph(std::int64_t batch = 0) const { return parse().graph({.batch = batch}); }
  // The report, or "" where the model is whole.
  std::string report(const ImportOptions& options = {.batch = 0}) const;

  onnx::ModelProto proto;
};

constexpr const char* function_domain = "local";

std::string report_of_bytes(const std::string& bytes, const ImportOptions& options = {.batch = 0});
Shape shape_of(const Graph& graph, std::string_view value);
std::vector<std::string> ops_of(const Graph& graph);
std::vector<std::string> names_of(const Graph& graph, ValueKind kind);

// A folder of its own that goes with the test.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};
void write_file(const std::filesystem::path& path, const std::string& bytes);
std::string read_whole(const std::filesystem::path& path);

}  // namespace tandem::test
