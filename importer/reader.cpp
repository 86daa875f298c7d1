#include "importer/reader.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "graph/error.h"
#include "importer/file_descriptor.h"
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
      if (attribute.has_g()) check_graph(attribute.g(), depth + 1);
      for (const auto& graph : attribute.graphs()) check_graph(graph, depth + 1);
    }
}

void check_graph(const onnx::GraphProto& graph, int depth) {
  if (depth > limits::subgraph_depth) fail("graphs nest deeper than ", limits::subgraph_depth);
  check_values(graph.input());
  check_values(graph.output());
  check_values(graph.value_info());
  for (const auto& tensor : graph.initializer()) check_tensor(tensor);
  check_nodes(graph.node(), depth);
}

}  // namespace

std::string read_file(const std::filesystem::path& path, std::int64_t limit) {
  // Not blocking: opening a FIFO would wait for a writer.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) fail(ExitCode::io, "cannot open '", path.string(), "': ", std::strerror(errno));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail(ExitCode::io, "cannot read '", path.string(), "': ", std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(ExitCode::io, "'", path.string(), "' is not a regular file");
  if (status.st_size > limit) fail("the file has ", status.st_size, " bytes, at most ", limit, " are read");
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  read_exactly(file.get(), bytes.data(), bytes.size(), 0, path.string());
  return bytes;
}

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
    fail("not an ONNX model: the file is truncated, corrupt or of another format");
  if (!model.has_ir_version() || !model.has_graph()) fail("not an ONNX model: it has no ", model.has_graph() ? "ir_version" : "graph");
  if (model.ir_version() < limits::oldest_ir)
    fail("IR version ", model.ir_version(), " is older than ", limits::oldest_ir, ", the oldest that is read");
  check_graph(model.graph(), 0);
  for (const auto& function : model.functions()) {
    check_values(function.value_info());
    check_nodes(function.node(), 0);
  }
  return model;
}

}  // namespace tandem
