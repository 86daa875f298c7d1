// Low-rank adapters: what they begin with, what trains beside them, and what the exported model is.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "kernels/cpu/backend.h"
#include "planner/compile.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::float_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};

std::vector<float> drawn(std::int64_t n, double deviation, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, static_cast<float>(deviation));
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& v : values) v = normal(generator);
  return values;
}

// x [N,16] · first [16,24], relu, · secondᵀ [20,24], relu, · fcᵀ [5,20]
ModelFile base(const WeightOptions& options = {}) {
  test::Model m;
  m.input("x", "N,16").output("y").add(float_tensor("first", {16, 24}, drawn(384, 0.3, 1))).add(float_tensor("second.weight", {20, 24}, drawn(480, 0.3, 2)));
  m.add(float_tensor("second.bias", {20}, drawn(20, 0.1, 3))).add(float_tensor("fc.weight", {5, 20}, drawn(100, 0.3, 4))).add(float_tensor("fc.bias", {5}, drawn(5, 0.1, 5)));
  m.add(node("MatMul", {"x", "first"}, {"a"})).add(node("Relu", {"a"}, {"b"}));
  m.add(node("Gemm", {"b", "second.weight", "second.bias"}, {"c"}, {{"transB", std::int64_t{1}}})).add(node("Relu", {"c"}, {"d"}));
  m.add(node("Gemm", {"d", "fc.weight", "fc.bias"}, {"y"}, {{"transB", std::int64_t{1}}}));
  return ModelFile::parse(m.bytes(), {}, options);
}

WeightOptions adapted(std::int64_t rank = 4, std::vector<std::string> targets = {}) {
  WeightOptions o;
  o.head = 3;
  o.lora = LoraOptions{.rank = rank, .alpha = 8, .targets = std::move(targets)};
  return o;
}

// Three clouds of points.
MemoryDataset clouds(std::int64_t samples, unsigned seed) {
  const std::vector<float> centres = drawn(48, 1, 9), noise = drawn(samples * 16, 0.5, seed);
  Tensor points(TensorType{DType::float32, Shape{samples, 16}}), labels(TensorType{DType::int64, Shape{samples}});
  const auto x = points.write<float>();
  const auto y = labels.write<std::int64_t>();
  for (std::int64_t i = 0; i < samples; ++i) {
    y[static_cast<std::size_t>(i)] = i % 3;
    for (std::int64_t k = 0; k < 16; ++k) x[static_cast<std::size_t>(i * 16 + k)] = centres[static_cast<std::size_t>(i % 3 * 16 + k)] + noise[static_cast<std::size_t>(i * 16 + k)];
  }
  MemoryDataset data("clouds");
  data.add({.name = "x"}, points);
  data.add({.name = "y", .role = Role::label}, labels);
  return data;
}

ModelOptions training() {
  ModelOptions o;
  o.plan.batch = 20;
  o.plan.devices = parse_devices("cpu");
  o.plan.optimizer.momentum = 0.9;
  return o;
}

std::vector<double> scores(Model& model, const Dataset& data) { return model.predict(data)[0].tensor.to_doubles(); }

void expect_close(const std::vector<double>& got, const std::vector<double>& wanted, double most) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], most) << i;
}

TEST(Lora, BeginsAsTheBaseModel) {
  WeightOptions o = adapted();
  o.head.reset();
  Model with(base(o)), without(base());
  ModelOptions options = training();
  options.plan.mode = PlanMode::inference;
  with.compile(options, backends);
  without.compile({.plan = {.mode = PlanMode::inference, .batch = 20, .devices = parse_devices("cpu")}}, backends);
  const MemoryDataset data = clouds(40, 1);
  expect_close(scores(with, data), scores(without, data), 1e-6);
}

TEST(Lora, TrainsAdaptersAndTheHeadAloneAndIsWrittenMerged) {
  const TemporaryFolder folder;
  Model model(base(adapted()));
  model.compile(training(), backends);
  std::map<std::string, std::vector<double>> before;
  for (const NamedTensor& p : model.parameters()) before[p.name] = p.tensor.to_doubles();
  for (const double b : before.at("first.lora_B")) EXPECT_EQ(b, 0);
  model.fit(clouds(300, 1), {.epochs = 5, .learning_rate = 0.05});
  EXPECT_GT(model.evaluate(clouds(90, 2)).accuracy, 0.9);
  for (const NamedTensor& p : model.parameters())
    EXPECT_EQ(p.tensor.to_doubles() != before.at(p.name), p.name.find(".lora_") != std::string::npos || p.name.starts_with("fc.")) << p.name;

  model.save(folder / "merged.onnx");
  Model merged = Model::load(folder / "merged.onnx");
  for (const TemplateTensor& t : merged.file().tensors()) EXPECT_EQ(t.name.find("lora"), std::string::npos) << t.name;
  EXPECT_EQ(merged.summary().parameters, 16 * 24 + 20 * 24 + 20 + 3 * 20 + 3);
  merged.compile({.plan = {.mode = PlanMode::inference, .batch = 20, .devices = parse_devices("cpu")}}, backends);
  const MemoryDataset data = clouds(60, 3);
  expect_close(scores(merged, data), scores(model, data), 1e-5);
}

TEST(Lora, KeepsStatesForWhatItTrains) {
  const ModelFile file = base(adapted(2, {"sec*"}));
  ASSERT_EQ(file.adapters().size(), 1U);
  const GraphSource source = [&](std::int64_t batch) { return file.graph({.batch = batch}); };
  CompileOptions options = training().plan;
  options.mode = PlanMode::training;
  options.freeze = {"*"};  // what a Model does by itself
  options.unfreeze = {"*lora_?", "fc.*"};
  const Graph graph = training_graph(source, options);
  std::int64_t states = 0;
  for (const Value& v : graph.values)
    if (v.role == ValueRole::optimizer_state) states += v.type.shape.elements();
  EXPECT_EQ(states, 2 * (24 + 20) + 3 * 20 + 3);
}

TEST(Lora, TargetsAreWeightsOrTheirReaders) {
  EXPECT_EQ(base(adapted(4, {"node_a"})).adapters().at(0).weight, "first");
  WeightOptions kept = adapted(4);
  kept.lora->except = {"fir*"};
  ASSERT_EQ(base(kept).adapters().size(), 1U);
  EXPECT_EQ(base(kept).adapters()[0].weight, "second.weight");
}

TEST(Lora, RefusesWhatHasNoMatrix) {
  WeightOptions tied = adapted(), still = adapted();
  tied.tie = {{"first", "second.weight"}};
  still.lora->alpha = 0;
  for (const auto& [options, says] : {std::pair{adapted(0), "r is 0"}, {adapted(17, {"first"}), "has 16 inputs and 24 outputs"}, {still, "alpha is 0"}, {tied, "option tie"},
                                      {adapted(4, {"second.bias"}), "targets 'second.bias': no weight goes by that name"}}) try {
      base(options);
      ADD_FAILURE() << "nothing was refused";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
    }
}

}  // namespace
}  // namespace tandem
