#include "tests/operators/node_cases.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "graph/operator.h"
#include "importer/message/tensor_data.h"
#include "tandem_onnx.pb.h"

namespace tandem::test {
namespace {

namespace fs = std::filesystem;

std::string read_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(ExitCode::io, "cannot read '", path.string(), "'");
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<NodeCase> cases_in(const fs::path& folder) {
  std::vector<NodeCase> cases;
  for (const auto& entry : fs::directory_iterator(folder))
    if (fs::exists(entry.path() / "model.onnx")) cases.push_back({entry.path().filename().string(), entry.path()});
  std::sort(cases.begin(), cases.end(), [](const NodeCase& a, const NodeCase& b) { return a.name < b.name; });
  return cases;
}

std::string environment(const char* name, const std::string& absent) {
  const char* value = std::getenv(name);
  return value && *value ? value : absent;
}

struct Reader {
  LoadedCase& into;
  std::set<std::string> operators, known;

  void read(const onnx::NodeProto& node) {
    operators.insert(node.domain().empty() || node.domain() == "ai.onnx" ? node.op_type() : node.domain() + "::" + node.op_type());
    if (const Operator* op = find_operator(node.op_type() == "Upsample" ? "Resize" : node.op_type(), node.domain())) {
      for (const StaticOperand& s : op->static_operands)
        if (s.input < node.input_size()) known.insert(node.input(s.input));
      if (op->name == "Range" || op->name == "Unique" || op->name == "NonMaxSuppression")
        known.insert(node.input().begin(), node.input().end());
    }
    if (node.op_type() == "Loop")  // the number of iterations, and whether there is a first
      for (int i = 0; i < std::min(2, node.input_size()); ++i) known.insert(node.input(i));
    if (node.op_type() == "SplitToSequence" && node.input_size() > 1) known.insert(node.input(1));
    for (const onnx::AttributeProto& a : node.attribute())
      if (a.has_g())
        for (const onnx::NodeProto& inner : a.g().node()) read(inner);
  }
};

// Nothing where the file holds no tensor of ours (strings, sequences, 4-bit integers).
Tensor read_tensor(const fs::path& path) {
  onnx::TensorProto proto;
  if (!proto.ParseFromString(read_bytes(path))) return {};
  try {
    ExternalData none = ExternalData::beside({});
    const std::optional<Tensor> tensor = tensor_of(proto, none);
    return tensor ? *tensor : Tensor();
  } catch (const Error&) {
    return {};
  }
}

NodeSuite suite_in(const char* name, const fs::path& folder) {
  NodeSuite suite{name, cases_in(folder), "", {}};
  const std::string op = environment("TANDEM_OPERATOR", "");
  if (op.empty()) return suite;
  std::erase_if(suite.cases, [&](const NodeCase& one) {
    onnx::ModelProto proto;
    const auto is_of = [&](const onnx::NodeProto& node) { return node.op_type() == op; };
    return !proto.ParseFromString(read_bytes(one.folder / "model.onnx")) ||
           std::none_of(proto.graph().node().begin(), proto.graph().node().end(), is_of);
  });
  if (suite.cases.empty()) suite.missing = concat("TANDEM_OPERATOR is '", op, "': ", name, " has no case of it");
  return suite;
}

}  // namespace

NodeSuite debian_suite() {
  const fs::path folder = fs::path(environment("TANDEM_ONNX_TESTDATA", "/usr/share/libonnx-testdata/data")) / "node";
  if (!fs::is_directory(folder))
    return {"libonnx-testdata", {}, "no folder '" + folder.string() + "': install libonnx-testdata or set TANDEM_ONNX_TESTDATA"};
  NodeSuite suite = suite_in("libonnx-testdata", folder);
  // Gradient has no node test, as it stands in a graph.
  if (const fs::path simple = folder.parent_path() / "simple";
      fs::is_directory(simple) && environment("TANDEM_OPERATOR", "Gradient") == "Gradient") {
    suite.missing.clear();
    for (NodeCase& one : cases_in(simple))
      if (one.name.starts_with("test_gradient_of_")) suite.cases.push_back(std::move(one));
  }
  return suite;
}

NodeSuite shared_suite() {
  const fs::path archive = fs::path(environment("TANDEM_SHARED", TANDEM_SHARED_DEFAULT)) / "onnx" / "node-tests.tar.xz";
  if (!fs::exists(archive)) return {"node-tests.tar.xz", {}, "no file '" + archive.string() + "': set TANDEM_SHARED"};
  const fs::path folder = fs::temp_directory_path() / concat("tandem-node-tests-", fs::file_size(archive));
  if (!fs::is_directory(folder / "node")) {
    // Unpacked beside and then renamed, so that tests that run at once do not see half of it.
    std::string part = folder.string() + ".XXXXXX";
    if (!mkdtemp(part.data())) return {"node-tests.tar.xz", {}, "cannot make a folder like '" + part + "'"};
    const std::string command = "tar -xf '" + archive.string() + "' -C '" + part + "'";
    if (std::system(command.c_str()) != 0) return {"node-tests.tar.xz", {}, "'" + command + "' failed"};
    std::error_code taken;
    fs::rename(part, folder, taken);
    if (taken) fs::remove_all(part);
  }
  return suite_in("node-tests.tar.xz", folder / "node");
}

NodeSuite onnxruntime_suite() {
  constexpr const char* name = "onnxruntime_cases.py";
  const std::string python = environment("TANDEM_PYTHON", "");
  if (python.empty()) return {name, {}, "TANDEM_PYTHON does not name a Python with onnx, onnxruntime and numpy (./run-tests makes one)"};
  std::string folder = (fs::temp_directory_path() / "tandem-onnxruntime-cases.XXXXXX").string();
  if (!mkdtemp(folder.data())) return {name, {}, "cannot make a folder like '" + folder + "'"};
  const std::string log = folder + "/log", command = concat('\'', python, "' '", TANDEM_SOURCE_DIR, "/tests/operators/", name, "' '",
                                                            folder, "/node' > '", log, "' 2>&1");
  const int status = std::system(command.c_str());
  NodeSuite suite{name, {}, ""};
  constexpr int packages_missing = 77;
  if (WIFEXITED(status) && WEXITSTATUS(status) == packages_missing) suite.missing = "TANDEM_PYTHON: " + read_bytes(log);
  else if (status != 0) fail(command, ": ", read_bytes(log));
  else suite = suite_in(name, fs::path(folder) / "node");
  suite.folder = std::shared_ptr<const fs::path>(new fs::path(folder), [](const fs::path* made) {
    fs::remove_all(*made);
    delete made;
  });
  return suite;
}

LoadedCase load(const NodeCase& one) {
  const std::string bytes = read_bytes(one.folder / "model.onnx");
  onnx::ModelProto proto;
  if (!proto.ParseFromString(bytes)) fail(ExitCode::io, "'", one.folder.string(), "' holds no model");
  LoadedCase loaded{ModelFile::parse(bytes, one.folder), {}, {}, {}, {}};
  Reader reader{loaded, {}, {}};
  for (const onnx::NodeProto& node : proto.graph().node()) reader.read(node);
  for (const onnx::FunctionProto& function : proto.functions())
    for (const onnx::NodeProto& node : function.node()) reader.read(node);
  loaded.operators.assign(reader.operators.begin(), reader.operators.end());
  if (reader.operators.contains("Loop"))  // what its number of iterations is computed from
    for (const onnx::ValueInfoProto& input : proto.graph().input())
      if (input.type().has_tensor_type() && input.type().tensor_type().shape().dim_size() == 0) reader.known.insert(input.name());
  loaded.known.assign(reader.known.begin(), reader.known.end());
  const fs::path data = one.folder / "test_data_set_0";
  for (int i = 0; i < proto.graph().input_size(); ++i) {
    const fs::path file = data / concat("input_", i, ".pb");
    if (!fs::exists(file)) continue;
    const Tensor tensor = read_tensor(file);
    if (tensor.defined()) loaded.inputs.push_back({proto.graph().input(i).name(), tensor});
  }
  for (int i = 0; i < proto.graph().output_size(); ++i) loaded.outputs.push_back(read_tensor(data / concat("output_", i, ".pb")));
  return loaded;
}

namespace {

ImportOptions options_for(const LoadedCase& one, bool training, DType float_type, bool integers_known) {
  ImportOptions options;
  options.batch = 0;  // the file's own
  options.training = training;
  options.float_type = float_type;
  options.keep_halves = !training;
  for (const NamedTensor& input : one.inputs) {
    if (std::find(one.known.begin(), one.known.end(), input.name) != one.known.end() ||
        (integers_known && !is_float(input.tensor.dtype()))) {
      options.constants[input.name] = input.tensor;
      continue;
    }
    for (const ModelInput& declared : one.model.inputs())
      if (declared.name == input.name && declared.dims.size() == static_cast<std::size_t>(input.tensor.shape().rank()))
        for (int axis = 0; axis < input.tensor.shape().rank(); ++axis)
          if (declared.dims[static_cast<std::size_t>(axis)].size < 0)
            options.dims[concat(input.name, ':', axis)] = input.tensor.shape()[axis];
  }
  return options;
}

}  // namespace

ImportOptions import_options(const LoadedCase& one, bool training, DType float_type) {
  const ImportOptions options = options_for(one, training, float_type, false);
  for (const Problem& p : one.model.problems(options))
    if (p.reason.find("known when the plan is made") != std::string::npos) return options_for(one, training, float_type, true);
  return options;
}

}  // namespace tandem::test
