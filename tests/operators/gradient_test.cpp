// Every node test of a differentiable operator, in double: the gradients of a random weighting of its outputs against
// central differences of that same loss, all through the planner, the CPU backend and the runtime. Then the same in
// float32, whose kernels are others, against the double gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <random>
#include <set>

#include "graph/operator.h"
#include "graph/operators/rules.h"
#include "tests/operators/node_cases.h"
#include "tests/operators/run_graph.h"
#include "tests/operators/tolerance.h"

namespace tandem {
namespace {

using namespace test;

constexpr double step = 1e-5;
constexpr double tolerance_of_gradient = 1e-6;  // central differences: step² from the curve, 1e-16/step from rounding
constexpr double tolerance_of_float = 4;        // a gradient takes several steps
constexpr int sampled = 4;                      // coordinates of each input

// Inputs that ONNX does not differentiate.
struct FixedOperand {
  std::string_view op;
  std::size_t first, last;
};
constexpr FixedOperand fixed_operands[] = {
    {"BatchNormalization", 3, 4},         // running statistics
    {"NegativeLogLikelihoodLoss", 2, 2},  // weights of the classes
    {"MaxRoiPool", 1, 1},                 // regions
    {"RoiAlign", 1, 1},
    {"SoftmaxCrossEntropyLoss", 2, 2},
};

// Where activations are so close to 1 that nothing of 1 − y is left in float32: their gradients hold in double alone.
constexpr std::string_view saturated[] = {"test_gru_seq_length", "test_rnn_seq_length"};

bool is_fixed(const Graph& graph, ValueId input) {
  for (const Node& node : graph.nodes)
    for (const FixedOperand& row : fixed_operands)
      for (std::size_t i = row.first; node.op->name == row.op && i <= row.last && i < node.inputs.size(); ++i)
        if (node.inputs[i] == input) return true;
  return false;
}

// A graph whose float inputs are parameters and whose only output is Σ weight · output. Constants of all outputs that
// are floats; nothing where there is none.
struct Problem {
  Graph graph;
  std::vector<std::string> parameters;
  std::vector<NamedTensor> values;  // of the parameters
};

std::optional<Problem> make_problem(const Graph& model, const std::vector<NamedTensor>& inputs, DType dtype) {
  std::mt19937 random(1);
  Problem p{model, {}, {}};
  Graph& graph = p.graph;
  std::uniform_real_distribution<double> nudge(0.02, 0.12), weight(0.5, 1.5);
  std::vector<ValueId> left;
  for (const ValueId in : model.inputs) {
    if (model[in].type.dtype != dtype || is_fixed(model, in)) {
      left.push_back(in);
      continue;
    }
    for (const NamedTensor& t : inputs) {
      if (t.name != model[in].name) continue;
      // Off the kinks (zeros, equal elements, bounds), which sit at round numbers.
      Tensor data = t.tensor.cast(DType::float64);
      for (double& v : data.write<double>()) v = static_cast<float>((std::isfinite(v) ? v : 1) + nudge(random));
      data = data.cast(dtype);
      Value& v = graph[in];
      v.kind = ValueKind::parameter;
      v.trainable = true;
      v.template_shape = v.type.shape;
      v.depends_on_batch = false;
      v.data = data;
      p.parameters.push_back(v.name);
      p.values.push_back({v.name, data});
    }
  }
  graph.inputs = left;
  if (p.parameters.empty()) return std::nullopt;
  GraphBuilder b(graph, "check", {});
  ValueId loss;
  for (const ValueId out : model.outputs) {
    const TensorType type = graph[out].type;
    if (type.dtype != dtype || graph[out].kind != ValueKind::activation || type.shape.elements() == 0) continue;
    Tensor weights(TensorType{DType::float64, type.shape});
    for (double& w : weights.write<double>()) w = static_cast<float>(weight(random));
    ValueId sum = b.mul(out, graph.add_constant("weights", weights.cast(dtype)));
    if (type.shape.rank() > 0) {
      Ints axes(static_cast<std::size_t>(type.shape.rank()));
      for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
      sum = b.reduce_sum(sum, axes, false);
    }
    loss = loss.present() ? b.add(loss, sum) : sum;
  }
  if (!loss.present()) return std::nullopt;
  graph.outputs = {loss};
  return p;
}

const Tensor* find(const std::vector<NamedTensor>& list, const std::string& name) {
  for (const NamedTensor& t : list)
    if (t.name == name) return &t.tensor;
  return nullptr;
}

constexpr const char* not_finite = "the loss is not finite";

// The first coordinate whose gradient is wrong, or nothing.
std::string check_gradients(const Problem& p, const std::vector<NamedTensor>& inputs, std::vector<NamedTensor>& at) {
  std::mt19937 random(2);
  GraphRun run(p.graph, p.parameters);
  at = run.run(inputs);
  if (!std::isfinite(at[0].tensor.to_doubles()[0])) fail(not_finite);
  double scale = 1e-3;
  for (const std::string& name : p.parameters)
    if (const Tensor* g = find(at, "gradient/" + name))
      for (const double v : g->values<double>()) scale = std::max(scale, std::abs(v));
  for (const NamedTensor& parameter : p.values) {
    const Tensor* gradient = find(at, "gradient/" + parameter.name);
    const std::size_t n = static_cast<std::size_t>(parameter.tensor.elements());
    std::uniform_int_distribution<std::size_t> pick(0, n == 0 ? 0 : n - 1);
    for (std::size_t k = 0; k < std::min<std::size_t>(n, sampled); ++k) {
      const std::size_t i = n <= sampled ? k : pick(random);
      double loss[2];
      for (const int side : {0, 1}) {
        Tensor moved = parameter.tensor;
        moved.write<double>()[i] += side == 0 ? -step : step;
        run.set({{parameter.name, moved}});
        loss[side] = run.run(inputs)[0].tensor.to_doubles()[0];
      }
      run.set({parameter});
      if (!std::isfinite(loss[0]) || !std::isfinite(loss[1])) fail(not_finite);
      const double numeric = (loss[1] - loss[0]) / (2 * step), ours = gradient ? gradient->values<double>()[i] : 0;
      const double allowed = tolerance_of_gradient * std::max({scale, std::abs(loss[0]) * 1e-3, 1.0});
      if (!(std::abs(numeric - ours) <= allowed))
        return concat("gradient of '", parameter.name, "' ", parameter.tensor.type(), " at ", i, ": ", ours, ", central difference ",
                      numeric);
    }
  }
  return "";
}

// The first gradient in float32 that is not the one in double up to rounding, or nothing.
std::string compare_gradients(const Problem& p, const std::vector<NamedTensor>& inputs, const std::vector<NamedTensor>& in_double) {
  GraphRun run(p.graph, p.parameters);
  const std::vector<NamedTensor> at = run.run(inputs);
  const double relative = tolerance_of_float * tolerance(DType::float32, reduction_length(p.graph));
  for (std::size_t k = 1; k < at.size(); ++k) {
    const Tensor* want = find(in_double, at[k].name);
    if (!want) return concat("'", at[k].name, "' is none in double");
    const std::vector<double> a = at[k].tensor.to_doubles(), b = want->to_doubles();
    double scale = 1e-3;
    for (const double v : b) scale = std::max(scale, std::abs(v));
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!(std::abs(a[i] - b[i]) <= relative * scale))
        return concat("'", at[k].name, "' ", want->shape(), " at ", i, ": ", a[i], " in float32, ", b[i], " in double ± ",
                      relative * scale);
  }
  return "";
}

// Operators that a graph applies to what depends on its float inputs: those whose gradients a case exercises.
std::set<std::string> operators_of(const Graph& graph) {
  std::set<std::string> names;
  for (const Node& node : graph.nodes) names.insert(std::string(node.op->name));
  return names;
}

// Differentiated through what they expand to.
constexpr const char* composites[] = {
    "Celu", "DepthToSpace", "Dropout", "Flatten", "GRU", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "HardSwish", "Identity", "InstanceNormalization", "LRN",
    "LSTM", "LayerNormalization", "MaxPool", "Mean", "RNN", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare", "Selu",
    "SoftmaxCrossEntropyLoss", "Softsign", "SpaceToDepth", "DFT", "GridSample", "Resize", "STFT",
    "Split", "Squeeze", "Sum", "ThresholdedRelu", "Unsqueeze",
};

enum class Outcome { passed, failed, nothing_to_check };
struct Result {
  Outcome outcome;
  std::string reason;
  std::set<std::string> operators;
};

Result run_case(const NodeCase& one) {
  try {
    const LoadedCase loaded = load(one);
    const ImportOptions options = import_options(loaded, true, DType::float64);
    if (!loaded.model.problems(options).empty()) return {Outcome::nothing_to_check, "not importable", {}};
    const Graph graph = loaded.model.graph(options);
    std::vector<NamedTensor> inputs, singles;
    for (const NamedTensor& t : loaded.inputs) {
      const bool is_single =
          t.tensor.dtype() == DType::float32 || t.tensor.dtype() == DType::float16 || t.tensor.dtype() == DType::bfloat16;
      inputs.push_back(is_single ? NamedTensor{t.name, t.tensor.cast(DType::float64)} : t);
      singles.push_back(is_single ? NamedTensor{t.name, t.tensor.cast(DType::float32)} : t);
    }
    for (const ValueId in : graph.inputs)
      for (const NamedTensor& t : inputs)
        if (t.name == graph[in].name && t.tensor.shape() != graph[in].type.shape)
          return {Outcome::nothing_to_check, "its data has another shape than its file says", {}};
    const std::optional<Problem> p = make_problem(graph, inputs, DType::float64);
    if (!p) return {Outcome::nothing_to_check, "no float goes in or none comes out", {}};
    std::vector<NamedTensor> in_double;
    std::string wrong = check_gradients(*p, inputs, in_double);
    const bool compares = std::find(std::begin(saturated), std::end(saturated), one.name) == std::end(saturated);
    if (wrong.empty() && compares)
      if (const std::optional<Problem> single = make_problem(loaded.model.graph(import_options(loaded, true)), singles, DType::float32))
        wrong = compare_gradients(*single, singles, in_double);
    return {wrong.empty() ? Outcome::passed : Outcome::failed, wrong, operators_of(graph)};
  } catch (const std::exception& e) {
    std::string text = e.what();
    std::replace(text.begin(), text.end(), '\n', ' ');
    if (text.find("does not depend on any trainable parameter") != std::string::npos)
      return {Outcome::nothing_to_check, "nothing flows back", {}};
    if (text == not_finite) return {Outcome::nothing_to_check, text, {}};
    return {Outcome::failed, text, {}};
  }
}

std::set<std::string> run_suite(const NodeSuite& suite) {
  std::map<std::string, int> unchecked;
  std::set<std::string> checked;
  int passed = 0;
  for (const NodeCase& one : suite.cases) {
    const Result r = run_case(one);
    if (r.outcome == Outcome::failed) ADD_FAILURE() << one.name << ": " << r.reason;
    if (r.outcome == Outcome::nothing_to_check) ++unchecked[r.reason];
    if (r.outcome != Outcome::passed) continue;
    ++passed;
    checked.insert(r.operators.begin(), r.operators.end());
  }
  std::cout << suite.name << ": gradients of " << passed << " cases checked\n";
  for (const auto& [reason, n] : unchecked) std::cout << "  not checked " << n << ": " << reason << '\n';
  return checked;
}

constexpr int debians_opset = 17;

// Every operator of ONNX with a rule of its own that came with the opsets that are wanted.
void expect_all_rules(const std::set<std::string>& checked, bool (*wanted)(int opset)) {
  for (const Operator& op : operators()) {
    const bool has_rule = op.domain.empty() && op.differentiate && op.differentiate != zero_gradient;
    EXPECT_TRUE(!has_rule || !wanted(op.since.front()) || checked.count(std::string(op.name)))
        << "no case checks the gradient of " << op.name;
  }
}

TEST(Gradients, OfDebiansNodeTests) {
  const NodeSuite suite = debian_suite();
  if (!suite.missing.empty()) GTEST_SKIP() << suite.missing;
  const std::set<std::string> checked = run_suite(suite);
  if (!suite.covers_all()) return;
  expect_all_rules(checked, [](int opset) { return opset <= debians_opset; });
  for (const char* op : composites) EXPECT_TRUE(checked.count(op)) << "no case checks the gradient of " << op;
}

// Those that Debian's suite does not have.
TEST(Gradients, OfNewerNodeTests) {
  NodeSuite suite = shared_suite();
  if (!suite.missing.empty()) GTEST_SKIP() << suite.missing;
  std::set<std::string> old;
  for (const NodeCase& one : debian_suite().cases) old.insert(one.name);
  std::erase_if(suite.cases, [&](const NodeCase& one) { return old.count(one.name) > 0; });
  const std::set<std::string> checked = run_suite(suite);
  if (suite.covers_all()) expect_all_rules(checked, [](int opset) { return opset > debians_opset; });
}

TEST(Gradients, OfOnnxRuntimesOperators) {
  const NodeSuite suite = onnxruntime_suite();
  if (!suite.missing.empty()) GTEST_SKIP() << suite.missing;
  run_suite(suite);
}

}  // namespace
}  // namespace tandem
