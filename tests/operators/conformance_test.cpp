// Every ONNX node test of the operators we have, imported, planned, run on the CPU and compared.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <set>

#include "graph/half.h"
#include "graph/operator.h"
#include "tests/operators/node_cases.h"
#include "tests/operators/run_graph.h"
#include "tests/operators/skipped_cases.h"
#include "tests/operators/tolerance.h"

namespace tandem {
namespace {

using namespace test;

enum class Outcome { passed, failed, other_operators };
struct Result {
  Outcome outcome;
  std::string reason;
  std::vector<std::string> operators = {};  // of the model
};

// Operators of which a case of their own must pass in either suite.
constexpr const char* required[] = {
    "Conv", "Gemm", "MatMul", "Add", "Sub", "Mul", "Div", "Sum", "Relu", "LeakyRelu", "PRelu", "Elu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Clip", "MaxPool",
    "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "BatchNormalization", "LRN", "Dropout", "Softmax", "LogSoftmax", "Reshape", "Flatten", "Transpose", "Concat",
    "Split", "Slice", "Squeeze", "Unsqueeze", "Identity", "Pad", "ReduceMean", "ReduceSum", "Cast", "Constant", "ConstantOfShape", "Shape", "Gather", "Expand",
    "GatherElements", "GatherND", "ScatterElements", "ScatterND", "CumSum", "OneHot", "TopK", "Einsum", "ReverseSequence", "MaxUnpool", "Compress", "Unique",
    "NonZero", "Atan", "SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss", "DFT", "GridSample", "MelWeightMatrix", "Resize", "STFT",
};

// 16-bit floats, which Tensor does not convert.
std::vector<double> doubles_of(const Tensor& t) {
  if (t.dtype() != DType::float16 && t.dtype() != DType::bfloat16) return t.to_doubles();
  std::vector<double> out;
  for (std::size_t i = 0; i < t.bytes().size(); i += 2) {
    std::uint16_t bits;
    std::memcpy(&bits, t.bytes().data() + i, 2);
    out.push_back(t.dtype() == DType::float16 ? to_float(Float16{bits}) : to_float(BFloat16{bits}));
  }
  return out;
}

// The first difference of two tensors, or nothing.
std::string difference(const Tensor& got, const Tensor& want, double relative) {
  if (got.type() != want.type()) return concat("is ", got.type(), ", expected ", want.type());
  const std::vector<double> a = doubles_of(got), b = doubles_of(want);
  double scale = 0;
  for (const double v : b)
    if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (!(std::abs(a[i] - b[i]) <= relative * scale))
      return concat("differs at element ", i, " of ", want.shape(), ": ", a[i], ", expected ", b[i], " ± ", relative * scale);
  }
  return "";
}

// Outputs that folding has found already need no plan.
std::vector<Tensor> run_graph(const Graph& graph, const std::vector<NamedTensor>& inputs, LayoutPreference layout) {
  const auto known = [&](ValueId v) { return graph[v].kind == ValueKind::constant; };
  std::vector<NamedTensor> made;
  if (!std::all_of(graph.outputs.begin(), graph.outputs.end(), known)) made = GraphRun(graph, layout).run(inputs);
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i)
    results.push_back(known(graph.outputs[i]) ? *graph[graph.outputs[i]].data : made.at(i).tensor);
  return results;
}

Result run_case(const NodeCase& one) {
  try {
    const LoadedCase loaded = load(one);
    const ImportOptions options = import_options(loaded, false);
    for (const Problem& p : loaded.model.problems(options))
      if (p.reason.find("operator is not supported") != std::string::npos) return {Outcome::other_operators, p.op};
    const Graph graph = loaded.model.graph(options);
    if (graph.outputs.size() != loaded.outputs.size())
      return {Outcome::failed, concat("gives ", graph.outputs.size(), " outputs, expected ", loaded.outputs.size())};
    for (const LayoutPreference layout : {LayoutPreference::blocked, LayoutPreference::channels_last}) {
      const std::vector<Tensor> results = run_graph(graph, loaded.inputs, layout);
      for (std::size_t i = 0; i < results.size(); ++i)
        if (const std::string d = difference(results[i], loaded.outputs[i], tolerance(results[i].dtype(), reduction_length(graph)));
            !d.empty())
          return {Outcome::failed, concat("output ", i, ' ', d, layout == LayoutPreference::blocked ? "" : ", channels last")};
    }
    return {Outcome::passed, "", loaded.operators};
  } catch (const std::exception& e) {
    std::string text = e.what();
    std::replace(text.begin(), text.end(), '\n', ' ');
    return {Outcome::failed, text};
  }
}

// The rows of skipped_cases.cpp that were needed.
std::set<const SkippedCase*> run_suite(const NodeSuite& suite) {
  std::map<std::string, int> skips, other;
  std::set<std::string> alone;
  std::set<const SkippedCase*> used;
  int passed = 0;
  for (const NodeCase& one : suite.cases) {
    const Result r = run_case(one);
    const SkippedCase* row = skipped(suite.name, one.name);
    if (r.outcome == Outcome::other_operators) {
      ++other[r.reason];
    } else if (r.outcome == Outcome::passed) {
      ++passed;
      if (r.operators.size() == 1) alone.insert(r.operators[0]);
      if (row) ADD_FAILURE() << one.name << " is listed as skipped (" << row->reason << "), but it passes";
    } else if (row) {
      ++skips[row->reason];
      used.insert(row);
    } else {
      ADD_FAILURE() << one.name << ": " << r.reason;
    }
  }
  int skip_count = 0, others = 0;
  for (const auto& [reason, n] : skips) skip_count += n;
  for (const auto& [op, n] : other) others += n;
  std::cout << suite.name << ": " << suite.cases.size() << " cases, " << passed << " passed, " << skip_count << " skipped, " << others
            << " of operators that are not ours\n";
  for (const auto& [reason, n] : skips) std::cout << "  skipped " << n << ": " << reason << '\n';
  for (const char* op : required) EXPECT_TRUE(alone.count(op) || !suite.covers_all()) << "no case of " << op << " passes";
  return used;
}

TEST(Conformance, DebiansNodeTests) {
  const NodeSuite suite = debian_suite();
  if (!suite.missing.empty()) GTEST_SKIP() << suite.missing;
  const auto used = run_suite(suite);
  for (const SkippedCase& row : skipped_cases())
    EXPECT_TRUE(used.count(&row) || row.suite != suite.name || !suite.covers_all())
        << "no case is skipped by the row " << row.pattern << ": " << row.reason;
}

// The newer suite has all cases that a row without a suite may mean.
TEST(Conformance, NewerNodeTests) {
  const NodeSuite suite = shared_suite();
  if (!suite.missing.empty()) GTEST_SKIP() << suite.missing;
  const auto used = run_suite(suite);
  for (const SkippedCase& row : skipped_cases())
    EXPECT_TRUE(used.count(&row) || row.suite == debian_suite_name || !suite.covers_all())
        << "no case is skipped by the row " << row.pattern << ": " << row.reason;
}

// Of ONNX Runtime's operators and ai.onnx.ml's, each has a case; those without need a device that ONNX Runtime is not run on. ONNX's of
// training it does not have: the node tests do; QONNX's are in tests/training/exported_forms.py.
TEST(Conformance, OnnxRuntimesOperators) {
  const NodeSuite suite = onnxruntime_suite();
  if (!suite.missing.empty()) GTEST_SKIP() << suite.missing;
  std::set<std::string> passed;
  for (const NodeCase& one : suite.cases) {
    const Result r = run_case(one);
    EXPECT_EQ(r.outcome, Outcome::passed) << one.name << ": " << r.reason;
    passed.insert(r.operators.begin(), r.operators.end());
  }
  if (std::getenv("TANDEM_OPERATOR")) return;
  const std::set<std::string_view> for_devices{"BiasAdd", "BiasSplitGelu"}, also_under_onnxs_name{"SimplifiedLayerNormalization"},
      in_the_node_tests{"TreeEnsemble"};
  for (const Operator& op : operators()) {
    if (op.domain.empty() || op.domain == "tandem" || op.domain == "ai.onnx.preview.training" || op.domain == "qonnx.custom_op.general" ||
        for_devices.contains(op.name) || also_under_onnxs_name.contains(op.name) || in_the_node_tests.contains(op.name))
      continue;
    EXPECT_TRUE(passed.contains(concat(op.domain, "::", op.name))) << "no case of " << op.domain << "::" << op.name;
  }
}

}  // namespace
}  // namespace tandem
