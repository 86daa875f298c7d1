// Protocol buffers are parsed by their library; what it does not bound (nesting of graphs, ranks, versions) is checked behind it.
#include "importer/message/reader.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <climits>

#include "base/error.h"
#include "base/file_kind.h"
#include "base/wire_format.h"
#include "importer/message/limits.h"
#include "tandem_onnx.pb.h"

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
        fail("graphs nest deeper than ", limits::subgraph_depth, " at ", node.op_type(), " '", node.name(), "', attribute '",
             attribute.name(), "'");
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
        fail(where, "opset ", import.version(), " of ai.onnx is not supported, ", limits::oldest_opset, " to ", limits::newest_opset,
             " are");
  };
  check(model.opset_import(), "");
  for (const auto& function : model.functions()) check(function.opset_import(), concat("function '", function.name(), "': "));
}

// The messages of a model, and what of them holds further ones.
enum : int {
  in_model,
  in_graph,
  in_node,
  in_attribute,
  in_tensor,
  in_sparse,
  in_value,
  in_type,
  in_tensor_type,
  in_shape,
  in_list,
  in_map,
  in_function,
  in_training,
  in_pair
};
constexpr int fixed32 = static_cast<int>(Packed::fixed32), fixed64 = static_cast<int>(Packed::fixed64),
              varints = static_cast<int>(Packed::varint);
constexpr WireField wire_fields[] = {
    {in_model, 7, "graph", in_graph}, {in_model, 8, "opset_import[]", in_pair}, {in_model, 14, "metadata_props[]", in_pair},
    {in_model, 20, "training_info[]", in_training}, {in_model, 25, "functions[]", in_function},
    {in_graph, 1, "node[]", in_node}, {in_graph, 5, "initializer[]", in_tensor}, {in_graph, 11, "input[]", in_value}, {in_graph, 12, "output[]", in_value},
    {in_graph, 13, "value_info[]", in_value}, {in_graph, 15, "sparse_initializer[]", in_sparse}, {in_graph, 16, "metadata_props[]", in_pair},
    {in_node, 5, "attribute[]", in_attribute}, {in_node, 9, "metadata_props[]", in_pair},
    {in_attribute, 5, "t", in_tensor}, {in_attribute, 6, "g", in_graph}, {in_attribute, 10, "tensors[]", in_tensor}, {in_attribute, 11, "graphs[]", in_graph},
    {in_attribute, 7, "floats", fixed32}, {in_attribute, 8, "ints", varints}, {in_attribute, 14, "tp", in_type}, {in_attribute, 15, "type_protos[]", in_type},
    {in_attribute, 22, "sparse_tensor", in_sparse}, {in_attribute, 23, "sparse_tensors[]", in_sparse},
    {in_tensor, 1, "dims", varints}, {in_tensor, 4, "float_data", fixed32}, {in_tensor, 5, "int32_data", varints}, {in_tensor, 7, "int64_data", varints},
    {in_tensor, 10, "double_data", fixed64}, {in_tensor, 11, "uint64_data", varints}, {in_tensor, 13, "external_data[]", in_pair}, {in_tensor, 16, "metadata_props[]", in_pair},
    {in_sparse, 1, "values", in_tensor}, {in_sparse, 2, "indices", in_tensor}, {in_sparse, 3, "dims", varints},
    {in_value, 2, "type", in_type}, {in_value, 4, "metadata_props[]", in_pair},
    {in_type, 1, "tensor_type", in_tensor_type}, {in_type, 4, "sequence_type", in_list}, {in_type, 5, "map_type", in_map}, {in_type, 8, "sparse_tensor_type", in_tensor_type},
    {in_type, 9, "optional_type", in_list}, {in_tensor_type, 2, "shape", in_shape}, {in_shape, 1, "dim[]", in_pair}, {in_list, 1, "elem_type", in_type}, {in_map, 2, "value_type", in_type},
    {in_function, 7, "node[]", in_node}, {in_function, 9, "opset_import[]", in_pair}, {in_function, 11, "attribute_proto[]", in_attribute},
    {in_function, 12, "value_info[]", in_value}, {in_function, 14, "metadata_props[]", in_pair},
    {in_training, 1, "initialization", in_graph}, {in_training, 2, "algorithm", in_graph}, {in_training, 3, "initialization_binding[]", in_pair}, {in_training, 4, "update_binding[]", in_pair},
};

// Of bytes that are no message: what they are, else where they break off. A model that is cut begins as a whole one does.
[[noreturn]] void fail_broken(const std::string& bytes) {
  if (const std::string kind = kind_of_file(bytes); !kind.empty()) fail("expected an ONNX model, it is ", kind);
  const std::string part = broken_part(bytes, wire_fields);
  if (part.empty()) fail("not an ONNX model: the file is damaged, or nests much deeper than ", limits::subgraph_depth, " graphs");
  fail("not an ONNX model, or one that is cut off or damaged: ", part);
}

}  // namespace

onnx::ModelProto parse_model(const std::string& bytes) {
  if (bytes.empty()) fail("expected an ONNX model, the file is empty");
  if (static_cast<std::int64_t>(bytes.size()) > limits::model_bytes)
    fail("the model has ", bytes.size(), " bytes, at most ", limits::model_bytes, " are read");
  google::protobuf::io::ArrayInputStream array(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream input(&array);
  input.SetTotalBytesLimit(INT_MAX);
  input.SetRecursionLimit(8 * limits::subgraph_depth);  // three messages a subgraph, so that ours speaks first
  onnx::ModelProto model;
  if (!model.ParseFromCodedStream(&input) || !input.ConsumedEntireMessage()) fail_broken(bytes);
  if (!model.has_ir_version() || !model.has_graph()) {
    const std::string kind = kind_of_file(bytes);
    fail(kind.empty() ? concat("not an ONNX model: it has no ", model.has_graph() ? "ir_version" : "graph")
                      : concat("expected an ONNX model, it is ", kind));
  }
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
