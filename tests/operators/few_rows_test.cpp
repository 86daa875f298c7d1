// What one device can be planned for, several can, however few rows a batch has and however they are shared out: with one row, with
// devices that have none, with a last batch that is shorter than there are devices. They compute what one device does.
//
// The templates are those of models/, a sample of their batches, and of TANDEM_SHARED's onnx/models. With TANDEM_FEW_ROWS=all every
// batch of every template is planned, with TANDEM_FEW_ROWS_MODELS=FOLDER those of that folder, too: a matter of an hour.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>

#include "importer/model_file.h"
#include "kernels/cpu/backend.h"
#include "planner/compile.h"
#include "runtime/session.h"
#include "tests/importer/model_builder.h"

namespace tandem {
namespace {

using test::float_tensor;
using test::int_tensor;
using test::node;

const Backend* const backends[] = {&cpu_backend()};

onnx::TensorProto weight(const std::string& name, const std::vector<std::int64_t>& dims) {
  std::size_t count = 1;
  for (const std::int64_t d : dims) count *= static_cast<std::size_t>(d);
  std::mt19937 generator(static_cast<unsigned>(std::hash<std::string>()(name)));
  std::normal_distribution<float> normal(0, 0.4F);
  std::vector<float> values(count);
  for (float& v : values) v = normal(generator);
  return float_tensor(name, dims, values);
}

// Inputs x [N,5,3]; one output [N,2].
struct Net {
  const char* name;
  test::Model (*model)(const std::string& n);
  bool meets = false;  // samples meet: parts are gathered
  bool synchronized = false;
};
void PrintTo(const Net& net, std::ostream* out) { *out << net.name; }

test::Model begun(const std::string& n) {
  test::Model m;
  m.input("x", n + ",5,3").output("y");
  m.add(weight("v", {4, 2})).add(int_tensor("zero", {1}, {0})).add(int_tensor("one", {1}, {1}));
  return m;
}
// From h [1,N,4].
test::Model ended(test::Model m) {
  m.add(node("Squeeze", {"h", "zero"}, {"s"})).add(node("MatMul", {"s", "v"}, {"y"}));
  return m;
}
test::Model recurrence(const std::string& n, const char* op, std::int64_t gates, bool initial) {
  test::Model m = begun(n);
  m.add(weight("W", {1, gates * 4, 3})).add(weight("R", {1, gates * 4, 4})).add(weight("B", {1, gates * 8}));
  m.add(node("Transpose", {"x"}, {"t"}, {{"perm", std::vector<std::int64_t>{1, 0, 2}}}));
  if (initial) {  // one first state for all samples, which is trained
    m.add(weight("first", {1, 1, 4}))
        .add(int_tensor("four", {1}, {4}))
        .add(node("Shape", {"x"}, {"sh"}))
        .add(node("Gather", {"sh", "zero"}, {"n"}));
    m.add(node("Concat", {"one", "n", "four"}, {"to"}, {{"axis", std::int64_t{0}}})).add(node("Expand", {"first", "to"}, {"h0"}));
  }
  m.add(node(op, {"t", "W", "R", "B", "", initial ? "h0" : ""}, {"all", "h"}, {{"hidden_size", std::int64_t{4}}}));
  return ended(std::move(m));
}
test::Model both_ways(const std::string& n) {
  test::Model m = begun(n);
  m.add(weight("W", {2, 8, 3}))
      .add(weight("R", {2, 8, 2}))
      .add(node("Transpose", {"x"}, {"t"}, {{"perm", std::vector<std::int64_t>{1, 0, 2}}}));
  m.add(node("LSTM", {"t", "W", "R"}, {"all"}, {{"hidden_size", std::int64_t{2}}, {"direction", std::string("bidirectional")}}));
  m.add(node("Transpose", {"all"}, {"b"}, {{"perm", std::vector<std::int64_t>{2, 0, 1, 3}}}))
      .add(int_tensor("each", {3}, {-1, 5, 4}))
      .add(node("Reshape", {"b", "each"}, {"r"}));
  m.add(node("ReduceMax", {"r"}, {"s"}, {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", std::int64_t{0}}}))
      .add(node("MatMul", {"s", "v"}, {"y"}));
  return m;
}
test::Model tokens_first(const std::string& n) {
  test::Model m = begun(n);
  m.add(weight("w", {3, 4}))
      .add(node("Transpose", {"x"}, {"t"}, {{"perm", std::vector<std::int64_t>{1, 0, 2}}}))
      .add(node("MatMul", {"t", "w"}, {"u"}));
  m.add(node("Tanh", {"u"}, {"a"})).add(node("Transpose", {"a"}, {"b"}, {{"perm", std::vector<std::int64_t>{1, 0, 2}}}));
  m.add(node("ReduceMean", {"b"}, {"s"}, {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", std::int64_t{0}}}))
      .add(node("MatMul", {"s", "v"}, {"y"}));
  return m;
}
test::Model class_token(const std::string& n) {
  test::Model m = begun(n);
  m.add(weight("cls", {1, 1, 3}))
      .add(weight("w", {3, 4}))
      .add(int_tensor("three", {1}, {3}))
      .add(node("Shape", {"x"}, {"sh"}))
      .add(node("Gather", {"sh", "zero"}, {"n"}));
  m.add(node("Concat", {"n", "one", "three"}, {"to"}, {{"axis", std::int64_t{0}}}))
      .add(node("Expand", {"cls", "to"}, {"c"}))
      .add(node("Concat", {"c", "x"}, {"h"}, {{"axis", std::int64_t{1}}}));
  m.add(node("Transpose", {"h"}, {"t"}, {{"perm", std::vector<std::int64_t>{0, 2, 1}}}))
      .add(node("MatMul", {"h", "t"}, {"q"}))
      .add(node("Softmax", {"q"}, {"p"}, {{"axis", std::int64_t{-1}}}));
  m.add(node("MatMul", {"p", "h"}, {"o"}))
      .add(node("Gather", {"o", "zero"}, {"g"}, {{"axis", std::int64_t{1}}}))
      .add(node("Squeeze", {"g", "one"}, {"k"}))
      .add(node("MatMul", {"k", "w"}, {"s"}));
  m.add(node("MatMul", {"s", "v"}, {"y"}));
  return m;
}
test::Model normalized(const std::string& n) {
  test::Model m = begun(n);
  m.add(weight("w", {15, 4}))
      .add(weight("g", {4}))
      .add(weight("b", {4}))
      .add(test::filled_tensor("mean", {4}, 0))
      .add(test::filled_tensor("variance", {4}, 1))
      .add(node("Flatten", {"x"}, {"f"}));
  m.add(node("MatMul", {"f", "w"}, {"u"}))
      .add(node("BatchNormalization", {"u", "g", "b", "mean", "variance"}, {"z"}))
      .add(node("Tanh", {"z"}, {"s"}))
      .add(node("MatMul", {"s", "v"}, {"y"}));
  return m;
}
test::Model convolution(const std::string& n) {
  test::Model m = begun(n);
  m.add(weight("w", {4, 5, 2})).add(weight("c", {4})).add(node("Conv", {"x", "w", "c"}, {"u"})).add(node("Relu", {"u"}, {"a"}));
  m.add(node("GlobalAveragePool", {"a"}, {"p"})).add(node("Flatten", {"p"}, {"s"})).add(node("MatMul", {"s", "v"}, {"y"}));
  return m;
}
// The largest of the whole batch, which no part of it knows.
test::Model by_the_largest(const std::string& n) {
  test::Model m = begun(n);
  m.add(weight("w", {15, 4})).add(node("Flatten", {"x"}, {"f"})).add(node("MatMul", {"f", "w"}, {"u"}));
  m.add(node("ReduceMax", {"u"}, {"top"}, {{"axes", std::vector<std::int64_t>{0}}, {"keepdims", std::int64_t{1}}}))
      .add(node("Sub", {"u", "top"}, {"s"}))
      .add(node("MatMul", {"s", "v"}, {"y"}));
  return m;
}
test::Model softmax_over_samples(const std::string& n) {
  test::Model m = begun(n);
  m.add(weight("w", {15, 4}))
      .add(node("Flatten", {"x"}, {"f"}))
      .add(node("MatMul", {"f", "w"}, {"u"}))
      .add(node("Softmax", {"u"}, {"s"}, {{"axis", std::int64_t{0}}}))
      .add(node("MatMul", {"s", "v"}, {"y"}));
  return m;
}
test::Model flat_rows(const std::string& n) {  // samples and their rows in one axis
  test::Model m = begun(n);
  m.add(weight("w", {3, 4}))
      .add(int_tensor("flat", {2}, {-1, 3}))
      .add(int_tensor("each", {3}, {-1, 5, 4}))
      .add(node("Reshape", {"x", "flat"}, {"f"}))
      .add(node("MatMul", {"f", "w"}, {"u"}));
  m.add(node("Reshape", {"u", "each"}, {"r"}))
      .add(node("ReduceSum", {"r", "one"}, {"s"}, {{"keepdims", std::int64_t{0}}}))
      .add(node("MatMul", {"s", "v"}, {"y"}));
  return m;
}

const Net nets[] = {{"LSTM", [](const std::string& n) { return recurrence(n, "LSTM", 4, false); }},
                    {"GRU", [](const std::string& n) { return recurrence(n, "GRU", 3, false); }},
                    {"RNN", [](const std::string& n) { return recurrence(n, "RNN", 1, false); }},
                    {"LSTM_with_a_first_state", [](const std::string& n) { return recurrence(n, "LSTM", 4, true); }},
                    {"LSTM_both_ways", both_ways},
                    {"tokens_first", tokens_first},
                    {"class_token", class_token},
                    {"convolution", convolution},
                    {"flat_rows", flat_rows},
                    {"synchronized_normalization", normalized, false, true},
                    {"by_the_largest", by_the_largest, true},
                    {"softmax_over_samples", softmax_over_samples, true}};

// A batch and who has how much of it.
struct Shares {
  std::int64_t batch;
  std::vector<double> weights;
};
std::string text_of(const Shares& s) {
  std::string text = concat("batch ", s.batch, " on");
  for (const double w : s.weights) text += concat(' ', w);
  return text;
}

// Batches 1, 2, 3, N-1, N, N+1 on N devices: alike, unlike, and with one (the first, the last) that has nothing.
std::vector<Shares> all_shares() {
  std::vector<Shares> list;
  for (const std::size_t n : {2U, 3U, 5U})
    for (const std::int64_t batch : std::set<std::int64_t>{1, 2, 3, static_cast<std::int64_t>(n) - 1, static_cast<std::int64_t>(n),
                                                           static_cast<std::int64_t>(n) + 1}) {
      std::vector<double> unlike(n, 1), none(n, 1);
      for (std::size_t d = 0; d < n; ++d) unlike[d] = static_cast<double>(n - d);
      none[batch % 2 == 0 ? 0 : n - 1] = 0;
      for (const auto& weights : {std::vector<double>(n, 1), unlike, none}) list.push_back({batch, weights});
    }
  return list;
}

CompileOptions options_for(const Shares& shares, PlanMode mode) {
  CompileOptions o;
  o.mode = mode;
  o.batch = shares.batch;
  for (std::size_t d = 0; d < shares.weights.size(); ++d) o.devices.push_back({{"cpu", static_cast<int>(d)}, shares.weights[d]});
  o.loss.name = "mse";
  o.optimizer.momentum = 0.9;
  o.memory.free.assign(o.devices.size(), std::int64_t{1} << 60);
  return o;
}

struct Result {
  std::vector<std::vector<NamedTensor>> replicas;
  std::vector<float> losses, predictions;
  std::set<ExchangeKind> exchanges;
};

Tensor noise(const TensorType& type, unsigned seed) {
  Tensor t(type);
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  for (float& v : t.write<float>()) v = normal(generator);
  return t;
}

// Two steps, and what is predicted then.
Result run(const GraphSource& source, const std::vector<NamedTensor>& values, const Shares& shares, bool synchronized) {
  CompileOptions o = options_for(shares, PlanMode::training);
  o.synchronize_batch_norm = synchronized;
  const Plan training = compile(source, o, backends);
  Result result;
  for (const Exchange& e : training.exchanges) result.exchanges.insert(e.kind);
  Session session(training, backends);
  session.set_parameters(values);
  o.mode = PlanMode::inference;
  const std::size_t inference = session.add(compile(source, o, backends, &training));
  const auto step = [&](std::size_t plan, unsigned seed) {
    std::vector<Tensor> inputs;
    for (const HostInput& in : session.plan(plan).inputs)
      inputs.push_back(in.type.dtype == DType::float32 ? noise(in.type, seed + (in.name == "x")) : Tensor(in.type));
    std::vector<const std::byte*> in;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      in.push_back(session.plan(plan).inputs[i].name.starts_with("tandem.") ? nullptr : inputs[i].bytes().data());
    std::vector<std::vector<float>> outputs;
    std::vector<std::byte*> out;
    for (const HostOutput& h : session.plan(plan).outputs) outputs.emplace_back(static_cast<std::size_t>(h.bytes()) / sizeof(float));
    for (auto& values_of : outputs) out.push_back(reinterpret_cast<std::byte*>(values_of.data()));
    session.run(plan, in, out, {.learning_rate = 0.05, .step = static_cast<std::int64_t>(seed)});
    return outputs[0];
  };
  for (const unsigned seed : {1U, 5U}) {
    float loss = 0;
    for (const float part : step(0, seed)) loss += part;
    result.losses.push_back(loss);
  }
  result.predictions = step(inference, 9);
  for (int d = 0; d < session.devices(); ++d) result.replicas.push_back(session.parameters(d));
  return result;
}

void expect_close(std::span<const float> got, std::span<const float> wanted, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  float largest = 0;
  for (const float v : wanted) largest = std::max(largest, std::abs(v));
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 1e-5F * (1 + largest)) << what << ", element " << i;
}

class FewRows : public testing::TestWithParam<Net> {};

TEST_P(FewRows, TrainAsOnOneDevice) {
  const Net& net = GetParam();
  const ModelFile any = net.model("N").parse();
  // Where samples meet a file is for its own batch alone.
  const GraphSource source = [&](std::int64_t batch) {
    return net.meets ? net.model(std::to_string(batch)).graph(batch) : any.graph({.batch = batch});
  };
  std::vector<NamedTensor> values;
  for (const Graph first = source(2); const Value& v : first.values)
    if (v.kind == ValueKind::parameter) values.push_back({v.name, *v.data});
  std::map<std::int64_t, Result> alone;
  for (const Shares& shares : all_shares()) {
    SCOPED_TRACE(text_of(shares));
    if (!alone.contains(shares.batch)) alone[shares.batch] = run(source, values, {shares.batch, {1}}, net.synchronized);
    const Result &one = alone[shares.batch], got = run(source, values, shares, net.synchronized);
    expect_close(got.losses, one.losses, "losses");
    expect_close(got.predictions, one.predictions, "predictions");
    for (const auto& replica : got.replicas)
      for (std::size_t p = 0; p < replica.size(); ++p) {
        expect_close(replica[p].tensor.values<float>(), one.replicas[0][p].tensor.values<float>(), replica[p].name);
        EXPECT_EQ(std::memcmp(replica[p].tensor.bytes().data(), got.replicas[0][p].tensor.bytes().data(), replica[p].tensor.bytes().size()),
                  0)
            << "replicas differ";
      }
    for (const ExchangeKind kind : got.exchanges)
      EXPECT_TRUE(kind == ExchangeKind::all_reduce || (net.meets && shares.batch > 1)) << "samples that do not meet are summed over alone";
    if (HasFatalFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Nets, FewRows, testing::ValuesIn(nets), [](const auto& info) { return std::string(info.param.name); });

// Templates.

bool asked_for_all() {
  const char* const asked = std::getenv("TANDEM_FEW_ROWS");
  return asked && std::string_view(asked) == "all";
}

std::vector<std::filesystem::path> templates_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> list;
  if (std::filesystem::is_directory(folder))
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().extension() == ".onnx") list.push_back(entry.path());
  std::sort(list.begin(), list.end());
  return list;
}

// What a plan of one device is refused for; empty: it is planned.
std::string refusal(const GraphSource& source, const CompileOptions& o) {
  try {
    compile(source, o, backends);
    return {};
  } catch (const Error& e) {
    return e.what();
  }
}

// Plans each template that one device can be planned for: a sample of `few` divisions of a batch, or all of them.
void plan_all(const std::filesystem::path& folder, std::size_t few) {
  const std::vector<Shares> shares = all_shares();
  std::size_t number = 0, plans = 0;
  for (const std::filesystem::path& path : templates_in(folder)) {
    SCOPED_TRACE(path.filename().string());
    const ModelFile file = ModelFile::read(path);
    std::map<std::int64_t, Graph> graphs;
    const GraphSource source = [&](std::int64_t batch) {
      const auto known = graphs.find(batch);
      return known != graphs.end() ? known->second : graphs.emplace(batch, file.graph({.batch = batch})).first->second;
    };
    for (const std::int64_t step = asked_for_all() ? 1 : static_cast<std::int64_t>(shares.size() / few);
         const PlanMode mode : {PlanMode::training, PlanMode::inference}) {
      for (std::size_t s = asked_for_all() ? 0 : number++ % static_cast<std::size_t>(step); s < shares.size();
           s += static_cast<std::size_t>(step)) {
        const bool training = mode == PlanMode::training;
        CompileOptions o = options_for(shares[s], mode), one = options_for({shares[s].batch, {1}}, mode);
        std::string why = "no loss";
        for (const char* loss : {"softmax-cross-entropy", "mse"})
          if (!why.empty()) {
            o.loss.name = one.loss.name = loss;
            why = refusal(source, one);
          }
        if (!why.empty()) continue;
        for (const bool synchronized : {false, true}) {
          if (synchronized && (!training || s % 2 == 0)) continue;
          o.synchronize_batch_norm = synchronized;
          const std::string refused = refusal(source, o);  // a file whose samples cannot be followed is one batch, which is not shared out
          EXPECT_TRUE(refused.empty() || refused.find("cannot be used") != std::string::npos)
              << text_of(shares[s]) << (training ? ", training" : ", inference") << (synchronized ? ", synchronized: " : ": ") << refused;
          ++plans;
        }
      }
    }
  }
  EXPECT_GT(plans, 0U);
  std::cout << plans << " plans of " << templates_in(folder).size() << " templates\n";
}

TEST(FewRowsOfTemplates, OfTheProject) { plan_all(std::filesystem::path(TANDEM_SOURCE_DIR) / "models", 3); }

TEST(FewRowsOfTemplates, OfTheTestMaterial) {
  const char* const shared = std::getenv("TANDEM_SHARED");
  const std::filesystem::path folder = std::filesystem::path(shared ? shared : TANDEM_SHARED_DEFAULT) / "onnx" / "models";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there: set TANDEM_SHARED to the folder of test material";
  plan_all(folder, 1);
}

TEST(FewRowsOfTemplates, OfAnotherFolder) {
  const char* const folder = std::getenv("TANDEM_FEW_ROWS_MODELS");
  if (!folder) GTEST_SKIP() << "TANDEM_FEW_ROWS_MODELS names no folder of templates";
  plan_all(folder, 3);
}

}  // namespace
}  // namespace tandem
