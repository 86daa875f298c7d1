// What people of Keras ask of a model: its layers by name, values inside it, its configuration, gradients.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::float_tensor, test::int_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};

// y = relu(x·U + b)·W, with x of 2 numbers, a hidden layer of 3 and 2 classes.
std::string layers() {
  test::Model m;
  m.input("x", "N,2").output("y");
  m.add(float_tensor("body.fc.weight", {2, 3}, {1, 0, -1, 0, 1, -1}))
      .add(float_tensor("body.fc.bias", {3}, {0, 1, 0}))
      .add(float_tensor("head.weight", {3, 2}, {1, 0, 0, 1, 1, 1}));
  m.add(node("Gemm", {"x", "body.fc.weight", "body.fc.bias"}, {"h"}))
      .add(node("Relu", {"h"}, {"r"}))
      .add(node("MatMul", {"r", "head.weight"}, {"y"}));
  return m.bytes();
}

ModelOptions options(int* passes = nullptr) {
  ModelOptions o;
  o.plan.batch = 4;
  o.plan.devices = parse_devices("cpu");
  o.plan.optimizer = optimizer_defaults("adam");
  if (passes) o.plan.passes.after = [passes](const PassResult&) { ++*passes; };
  return o;
}

const Tensor x = Tensor::of<float>(Shape{3, 2}, std::vector<float>{1, 2, -3, 0.5F, 0, -4});
const Tensor y = Tensor::of<std::int64_t>(Shape{3}, std::vector<std::int64_t>{0, 1, 1});
const std::vector<double> hidden{1, 3, 0, 0, 1.5, 2.5, 0, 0, 4};  // relu(x·U + b)

MemoryDataset data() {
  MemoryDataset set("made here");
  set.add({.name = "x"}, x);
  set.add({.name = "y", .role = Role::label}, y);
  return set;
}

TEST(Layers, HaveNodesWeightsAndOutputs) {
  Model model(ModelFile::parse(layers(), {}));
  const Layer untrained = model.get_layer("body");
  EXPECT_EQ(untrained.nodes, std::vector<std::string>{"node_h"});
  EXPECT_EQ(untrained.operators, std::vector<std::string>{"Gemm"});
  EXPECT_EQ(untrained.outputs, std::vector<std::string>{"h"});
  ASSERT_EQ(untrained.weights.size(), 2U);
  model.compile(options(), backends);
  model.train_on_batch(std::vector<Tensor>{x, y}, 0.1);
  for (const char* name : {"node_h", "h", "body.fc"}) {
    const Layer layer = model.get_layer(name);
    ASSERT_EQ(layer.weights.size(), 2U) << name;
    for (const NamedTensor& w : layer.weights)
      for (const NamedTensor& p : model.parameters())
        EXPECT_TRUE(p.name != w.name || w.tensor.to_doubles() == p.tensor.to_doubles()) << p.name;
    EXPECT_NE(layer.weights[0].tensor.to_doubles(), untrained.weights[0].tensor.to_doubles());
  }
  try {
    model.get_layer("node_g");
    FAIL() << "not refused";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_NE(std::string(e.what()).find("has no node, value or module 'node_g'"), std::string::npos) << e.what();
  }
}

TEST(Layers, GiveTheirOutputsForABatchAndForData) {
  Model model(ModelFile::parse(layers(), {}));
  model.compile(options(), backends);
  const std::vector<Tensor> batch = model.predict_on_batch(std::vector<Tensor>{x}, {"r", "y"});
  ASSERT_EQ(batch.size(), 2U);
  EXPECT_EQ(batch[0].to_doubles(), hidden);
  EXPECT_EQ(model.predict_on_batch(std::vector<Tensor>{x}).size(), 1U);
  const std::vector<NamedTensor> all = model.predict(data(), {.outputs = {"r"}});
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].name, "r");
  EXPECT_EQ(all[0].tensor.to_doubles(), hidden);
  EXPECT_EQ(model.predict(data())[0].name, "y");
  EXPECT_THROW(model.predict(data(), {.outputs = {"head.weight"}}), Error);
  EXPECT_THROW(model.evaluate(data(), {.outputs = {"r"}}), Error);
}

TEST(Layers, PredictOutputsOfNoElements) {
  test::Model m;
  m.input("x", "N,2").output("y").output("none");
  m.add(float_tensor("w", {2, 2}, {1, 0, 0, 1})).add(int_tensor("zero", {1}, {0})).add(int_tensor("one", {1}, {1}));
  m.add(node("MatMul", {"x", "w"}, {"y"})).add(node("Slice", {"y", "zero", "zero", "one"}, {"none"}));
  Model model(ModelFile::parse(m.bytes(), {}));
  ModelOptions inference = options();
  inference.plan.mode = PlanMode::inference;
  model.compile(inference, backends);
  const std::vector<NamedTensor> all = model.predict(data());
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].tensor.to_doubles(), x.to_doubles());
  EXPECT_EQ(to_string(all[1].tensor.type()), "float32[3,0]");
}

TEST(Layers, CutModelsEndThere) {
  WeightOptions features;
  features.outputs = {"r"};
  Model model(ModelFile::parse(layers(), {}, features));
  ModelOptions inference = options();
  inference.plan.mode = PlanMode::inference;
  model.compile(inference, backends);
  EXPECT_EQ(model.predict(data())[0].tensor.to_doubles(), hidden);
  EXPECT_EQ(model.parameters().size(), 2U);
}

TEST(Config, SaysWhatTheModelIsCompiledFor) {
  Model model(ModelFile::parse(layers(), {}));
  EXPECT_THROW(model.get_config(), Error);
  ModelOptions o = options();
  o.plan.trained.freeze = {"body.*"};
  model.compile(o, backends);
  model.fit(data(), {.epochs = 1, .learning_rate = 0.25, .schedule = parse_schedule("cosine")});
  const Json config = Json::parse(model.get_config().dump());
  EXPECT_EQ(config.at("loss").text(), "softmax-cross-entropy");
  EXPECT_EQ(config.at("loss_on").text(), "y");
  EXPECT_EQ(config.at("optimizer").at("name").text(), "adam");
  EXPECT_EQ(config.at("optimizer").at("beta2").number(), 0.999);
  EXPECT_EQ(config.at("fit").at("schedule").text(), "cosine");
  EXPECT_EQ(config.at("fit").at("learning_rate").number(), 0.25);
  EXPECT_EQ(config.at("inputs").array()[0].at("name").text(), "x");
  const Json& first = config.at("layers").array()[0];
  EXPECT_EQ(first.at("weights").array().size(), 2U);
  EXPECT_TRUE(first.at("trained").array().empty());
  EXPECT_EQ(config.at("layers").array()[2].at("trained").array().size(), 1U);
}

TEST(Gradients, ArePlannedOnceForEachBatchSizeAndGoByThePresentWeights) {
  int passes = 0;
  Model model(ModelFile::parse(layers(), {}));
  model.compile(options(&passes), backends);
  const auto gradient = [&](const std::vector<Tensor>& batch) { return model.gradients(batch)[0].tensor.to_doubles(); };
  const std::vector<Tensor> batch{x, y};
  const auto first = gradient(batch);
  const int planned = passes;
  EXPECT_EQ(gradient(batch), first);
  EXPECT_EQ(passes, planned);
  model.train_on_batch(batch, 0.5);
  const int trained = passes;
  EXPECT_NE(gradient(batch), first);
  EXPECT_EQ(passes, trained);
  gradient({Tensor(TensorType{DType::float32, Shape{2, 2}}), Tensor(TensorType{DType::int64, Shape{2}})});
  EXPECT_GT(passes, trained);
}

}  // namespace
}  // namespace tandem
