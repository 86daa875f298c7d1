// ONNX's node tests: a folder a case, holding model.onnx and test_data_set_0/{input,output}_N.pb.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "importer/model_file.h"
#include "runtime/session.h"

namespace tandem::test {

struct NodeCase {
  std::string name;  // "test_conv_with_strides_padding"
  std::filesystem::path folder;
};

// A folder of cases, or why there is none. Where TANDEM_OPERATOR names an operator, those alone whose model has a node of it.
struct NodeSuite {
  std::string name;
  std::vector<NodeCase> cases;  // sorted by name
  std::string missing;
  std::shared_ptr<const std::filesystem::path> folder = {};  // where it was made for this run; goes with the suite
  // An older suite than ONNX 1.12's, or a part of one, is run, but what it does not cover is no fault.
  bool covers_all() const { return cases.size() >= 932; }
};
inline constexpr std::string_view debian_suite_name = "libonnx-testdata";
NodeSuite debian_suite();  // the package libonnx-testdata, or the folder that TANDEM_ONNX_TESTDATA names
NodeSuite shared_suite();  // node-tests.tar.xz in TANDEM_SHARED, unpacked into the test's temporary folder

NodeSuite onnxruntime_suite();  // what onnxruntime_cases.py makes: operators that ONNX has no tests of

struct LoadedCase {
  ModelFile model;
  std::vector<std::string> operators;  // of all nodes, each once; domain in front where it is not ONNX's
  std::vector<NamedTensor> inputs;     // by the graph inputs' names; an input without a value is left out
  std::vector<Tensor> outputs;         // expected; undefined where the element type is none of ours
  std::vector<std::string> known;      // inputs that operators take as static operands
};
LoadedCase load(const NodeCase& one);

// For the case's model with its own sizes, and in training without 16-bit floats; static operands become constants and, where that is not
// enough to know every size, all inputs that are no floats.
ImportOptions import_options(const LoadedCase& one, bool training, DType float_type = DType::undefined);

}  // namespace tandem::test
