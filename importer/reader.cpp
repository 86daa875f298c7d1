// Protocol buffers are parsed by their library; what it does not bound (nesting of graphs, ranks, versions) is checked behind it.
#include "importer/reader.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <climits>

#include "graph/error.h"
#include "importer/limits.h"

namespace tandem {
namespace {

void check_rank(int rank, const std::string& what) {
  if (rank > limits::rank) fail(what, " has rank ", rank, ", at most ", limits::rank, " are read");
}

void check_tensor(const onnx::TensorProto& tensor) {
  check_rank(tensor.dims_size(), concat("tensor '", tensor.name(), '\''));
}

void check_values(const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& values) {
  for (const auto& value : values) check_rank(value.type().tensor_type().shape().dim_size(), concat("value '", value.name(), '\''));
}

void check_graph(const onnx::GraphProto& graph, int depth);

void check_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, int depth) {
  for (const auto& node : nodes)
    for (const auto& attribute : node.attribute()) {
      check_tensor(attribute.t());
      if (depth == limits::subgraph_depth && (attribute.has_g() || attribute.graphs_size() > 0))
        fail("graphs nest deeper than ", limits::subgraph_depth, " at ", node.op_type(), " '", node.name(), "', attribute '", attribute.name(), "'");
      if (attribute.has_g()) check_graph(attribute.g(), depth + 1);
      for (const auto& graph : attribute.graphs()) check_graph(graph, depth + 1);
    }
}

void check_graph(const onnx::GraphProto& graph, int depth) {
  check_values(graph.input());
  check_values(graph.output());
  check_values(graph.value_info());
  for (const auto& tensor : graph.initializer()) check_tensor(tensor);
  check_nodes(graph.node(), depth);
}

// Of a newer version nobody knows what it means; an older one is judged node by node.
void check_versions(const onnx::ModelProto& model) {
  if (model.ir_version() < limits::oldest_ir || model.ir_version() > limits::newest_ir)
    fail("IR version ", model.ir_version(), " is not supported, ", limits::oldest_ir, " to ", limits::newest_ir, " are");
  const auto check = [](const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports, const std::string& where) {
    for (const auto& import : imports)
      if ((import.domain().empty() || import.domain() == "ai.onnx") && (import.version() < 1 || import.version() > limits::newest_opset))
        fail(where, "opset ", import.version(), " of ai.onnx is not supported, ", limits::oldest_opset, " to ", limits::newest_opset, " are");
  };
  check(model.opset_import(), "");
  for (const auto& function : model.functions()) check(function.opset_import(), concat("function '", function.name(), "': "));
}

}  // namespace

onnx::ModelProto parse_model(const std::string& bytes) {
  if (bytes.empty()) fail("the file is empty");
  if (static_cast<std::int64_t>(bytes.size()) > limits::model_bytes)
    fail("the model has ", bytes.size(), " bytes, at most ", limits::model_bytes, " are read");
  google::protobuf::io::ArrayInputStream array(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream input(&array);
  input.SetTotalBytesLimit(INT_MAX);
  input.SetRecursionLimit(8 * limits::subgraph_depth);  // three messages a subgraph, so that ours speaks first
  onnx::ModelProto model;
  if (!model.ParseFromCodedStream(&input) || !input.ConsumedEntireMessage())
    fail("not an ONNX model: the file is truncated, corrupt, of another format, or nests much deeper than ", limits::subgraph_depth, " graphs");
  if (!model.has_ir_version() || !model.has_graph()) fail("not an ONNX model: it has no ", model.has_graph() ? "ir_version" : "graph");
  check_versions(model);
  check_graph(model.graph(), 0);
  for (const auto& info : model.training_info()) {
    check_graph(info.initialization(), 0);
    check_graph(info.algorithm(), 0);
  }
  for (const auto& function : model.functions()) {
    check_values(function.value_info());
    check_nodes(function.node(), 0);
  }
  return model;
}

}  // namespace tandem
