// A trained model for other classes: what a new head learns, and what training it alone leaves out.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "graph/operator.h"
#include "kernels/cpu/backend.h"
#include "planner/compile.h"
#include "tests/importer/model_builder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::filled_tensor, test::float_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};

std::vector<float> drawn(std::int64_t n, std::int64_t fan_in) {
  static std::mt19937 generator(5);
  std::normal_distribution<float> normal(0, std::sqrt(2.0F / static_cast<float>(fan_in)));
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& v : values) v = normal(generator);
  return values;
}

// A residual network with the values a training left, for 7 classes of images of one channel.
ModelFile residual(const WeightOptions& options) {
  test::Model m;
  m.input("x", "N,1,8,8").output("y");
  const auto layer = [&](const std::string& name, const std::string& from, const std::string& to, std::int64_t in) {
    m.add(float_tensor(name + ".weight", {8, in, 3, 3}, drawn(8 * in * 9, in * 9)));
    m.add(node("Conv", {from, name + ".weight"}, {name}, {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}}));
    for (const char* part : {".scale", ".var"}) m.add(filled_tensor(name + part, {8}, 1));
    for (const char* part : {".bias", ".mean"}) m.add(filled_tensor(name + part, {8}, 0.1F));
    m.add(node("BatchNormalization", {name, name + ".scale", name + ".bias", name + ".mean", name + ".var"}, {to}));
  };
  layer("stem", "x", "a", 1);
  m.add(node("Relu", {"a"}, {"b"}));
  layer("block", "b", "c", 8);
  m.add(node("Add", {"b", "c"}, {"d"}))
      .add(node("Relu", {"d"}, {"e"}))
      .add(node("GlobalAveragePool", {"e"}, {"g"}))
      .add(node("Flatten", {"g"}, {"f"}));
  m.add(float_tensor("fc.weight", {7, 8}, drawn(56, 8))).add(float_tensor("fc.bias", {7}, drawn(7, 8)));
  m.add(node("Gemm", {"f", "fc.weight", "fc.bias"}, {"y"}, {{"transB", std::int64_t{1}}}));
  return ModelFile::parse(m.bytes(), {}, options);
}

// Stripes, columns and a chequered board, of any phase and strength, in noise.
MemoryDataset patterns(std::int64_t samples, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> noise(0, 0.2F);
  Tensor images(TensorType{DType::float32, Shape{samples, 1, 8, 8}}), labels(TensorType{DType::int64, Shape{samples}});
  const auto x = images.write<float>();
  const auto y = labels.write<std::int64_t>();
  for (std::int64_t i = 0; i < samples; ++i) {
    const std::int64_t label = i % 3, phase = generator() % 2;
    const float strength = 0.7F + 0.3F * noise(generator);
    y[static_cast<std::size_t>(i)] = label;
    for (std::int64_t p = 0; p < 64; ++p) {
      const std::int64_t row = p / 8, column = p % 8, place = label == 0 ? row : label == 1 ? column : row + column;
      x[static_cast<std::size_t>(i * 64 + p)] = ((place + phase) % 2 ? strength : -strength) + noise(generator);
    }
  }
  MemoryDataset data("patterns");
  data.add({.name = "x"}, images);
  data.add({.name = "y", .role = Role::label}, labels);
  return data;
}

struct Row {
  std::string name;
  bool alone;
};

class HeadTraining : public testing::TestWithParam<Row> {};

TEST_P(HeadTraining, LearnsOtherClasses) {
  WeightOptions three;
  three.head = 3;
  Model model(residual(three));
  EXPECT_EQ(model.file().head(), (std::vector<std::string>{"fc.weight", "fc.bias"}));
  ModelOptions options;
  options.plan.batch = 20;
  options.plan.devices = parse_devices("cpu");
  options.plan.optimizer.momentum = 0.9;
  if (GetParam().alone) options.plan.trained.freeze = {"*"}, options.plan.trained.unfreeze = model.file().head();
  model.compile(options, backends);
  std::map<std::string, Tensor> before;
  for (const NamedTensor& p : model.parameters()) before.emplace(p.name, p.tensor);
  model.fit(patterns(300, 1), {.epochs = GetParam().alone ? 30 : 8, .learning_rate = 0.05});
  EXPECT_GT(model.evaluate(patterns(90, 2)).accuracy, 0.9);
  for (const NamedTensor& p : model.parameters()) {
    const auto now = p.tensor.to_doubles(), then = before.at(p.name).to_doubles();
    EXPECT_EQ(now == then, GetParam().alone && !p.name.starts_with("fc.")) << p.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, HeadTraining, testing::Values(Row{"with_all_weights", false}, Row{"alone", true}),
                         [](const auto& info) { return info.param.name; });

TEST(NewHead, AloneNeedsNoGradientAndNoStateBelowIt) {
  WeightOptions three;
  three.head = 3;
  const ModelFile file = residual(three);
  const GraphSource source = [&](std::int64_t batch) { return file.graph({.batch = batch}); };
  CompileOptions options;
  options.mode = PlanMode::training;
  options.batch = 4;
  options.devices = parse_devices("cpu");
  options.optimizer.momentum = 0.9;
  const auto count = [&] {
    std::pair<int, int> backward_and_states{0, 0};
    const Graph graph = training_graph(source, options);
    for (const Node& n : graph.nodes) backward_and_states.first += n.op->name.starts_with("ConvolutionBackward");
    for (const Value& v : graph.values) backward_and_states.second += v.role == ValueRole::optimizer_state;
    return backward_and_states;
  };
  EXPECT_EQ(count(), (std::pair{3, 8}));  // two filters, and the way to the first; a velocity for every weight
  options.trained.freeze = {"*"};
  options.trained.unfreeze = file.head();
  EXPECT_EQ(count(), (std::pair{0, 2}));
}

TEST(NewHead, LabelsBeyondTheClassesNameTheOption) {
  Model model(residual({}));
  ModelOptions options;
  options.plan.batch = 2;
  options.plan.devices = parse_devices("cpu");
  MemoryDataset data("many");
  Tensor labels(TensorType{DType::int64, Shape{2}});
  labels.write<std::int64_t>()[1] = 9;
  data.add({.name = "x"}, Tensor(TensorType{DType::float32, Shape{2, 1, 8, 8}}));
  data.add({.name = "y", .role = Role::label}, labels);
  try {
    model.source().check_data(data, options, {});
    FAIL() << "not refused";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::data);
    EXPECT_NE(std::string(e.what()).find("has 7 classes (0 to 6): option head"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tandem
