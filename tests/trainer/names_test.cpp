// A name is only a name: whatever a model calls its inputs, weights, values and outputs, it trains to the same bits as with names that
// nobody else uses. What planner and trainer add to a model is found by its role.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/checkpoint.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::filled_tensor, test::float_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};

// All that the code calls something it adds.
const char* const known[] = {
    "labels", "labels/y", "labels/out", "sample_weights", "sample_weight", "tandem.scalars", "tandem.random", "tandem.loss_scale",
    "tandem.fp8", "tandem/labels", "tandem/loss/0", "tandem/teacher", "loss", "loss/out", "loss/share", "loss/distillation", "loss/const_0",
    "loss/constant0", "loss/classes0", "loss/Reshape_1", "loss_scale", "correct", "counted", "momentum/w", "velocity/w", "m/w", "average/w",
    "average/mean", "gradient_sum/w", "gradient/w", "update/w", "w/bfloat16", "w/float16", "teacher/w", "out/places", "kept/w", "x/staging",
};

struct Names {
  std::string x = "in", kind = "sort", w = "w", hidden = "mid", out = "out";
};

// Two inputs, a table, a product, a normalization with its statistics, dropout, and scores of five classes.
ModelFile model_of(const Names& n) {
  std::vector<float> w(12), e(9), v(15);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = 0.3F - 0.07F * static_cast<float>(i * i % 11);
  for (std::size_t i = 0; i < e.size(); ++i) e[i] = 0.2F * static_cast<float>(i % 4) - 0.3F;
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = 0.1F * static_cast<float>(i * 7 % 9) - 0.4F;
  test::Model m;
  m.input(n.x, "N,4").input(n.kind, "N", onnx::TensorProto::INT64);
  m.add(float_tensor(n.w, {4, 3}, w)).add(float_tensor("table", {3, 3}, e)).add(float_tensor("v", {3, 5}, v));
  m.add(filled_tensor("scale", {3}, 1)).add(filled_tensor("bias", {3}, 0.1F)).add(filled_tensor("mean", {3}, 0));
  m.add(filled_tensor("variance", {3}, 1)).add(filled_tensor("ratio", {}, 0.25F));
  m.add(node("MatMul", {n.x, n.w}, {"product"})).add(node("Gather", {"table", n.kind}, {"row"}));
  m.add(node("Add", {"product", "row"}, {n.hidden}))
      .add(node("BatchNormalization", {n.hidden, "scale", "bias", "mean", "variance"}, {"normal"}));
  m.add(node("Dropout", {"normal", "ratio"}, {"dropped"})).add(node("Relu", {"dropped"}, {"positive"}));
  m.add(node("MatMul", {"positive", "v"}, {n.out}));
  return m.output(n.out).parse();
}

MemoryDataset data_of(const Names& n) {
  constexpr std::int64_t samples = 23;
  Tensor x(TensorType{DType::float32, {samples, 4}}), kind(TensorType{DType::int64, {samples}}), y(kind.type());
  Tensor weight(TensorType{DType::float32, {samples}});
  for (std::int64_t i = 0; float& v : x.write<float>()) v = 0.1F * static_cast<float>(i++ * 13 % 17) - 0.8F;
  for (std::int64_t i = 0; std::int64_t& v : kind.write<std::int64_t>()) v = i++ * 5 % 3;
  for (std::int64_t i = 0; std::int64_t& v : y.write<std::int64_t>()) v = i++ * 3 % 5;
  for (std::int64_t i = 0; float& v : weight.write<float>()) v = 0.5F + 0.25F * static_cast<float>(i++ % 4);
  MemoryDataset data("made here");
  data.add({.name = n.x}, x);
  data.add({.name = n.kind}, kind);
  data.add({.name = "y", .role = Role::label}, y);
  data.add({.name = "weights", .role = Role::weight}, weight);
  return data;
}

ModelOptions options_for(const std::string& devices, Precision precision) {
  ModelOptions o{.init = "keep"};
  o.plan.batch = 8;
  o.plan.devices = parse_devices(devices);
  o.plan.precision = precision;
  o.plan.kernel.deterministic = true;
  o.plan.optimizer.momentum = 0.9;
  o.plan.optimizer.average = true;
  o.plan.optimizer.clip_norm = 1;
  o.plan.loss.scaling = LossScaling{.start = 1024};
  return o;
}

struct Outcome {
  std::vector<double> losses;
  std::vector<std::vector<std::byte>> bytes;  // of weights, statistics and predictions, in the file's order
  bool operator==(const Outcome&) const = default;
};

Outcome trained(const Names& n, const std::string& devices, Precision precision) {
  const MemoryDataset data = data_of(n);
  Model model(model_of(n));
  ModelOptions o = options_for(devices, precision);
  model.source().fit_labels(o, data);
  model.compile(o, backends);
  Outcome r;
  FitOptions fit{.epochs = 2, .learning_rate = 0.05};
  fit.averaging.ema = 0.9;
  fit.callbacks.on_step = [&](const StepReport& s) { r.losses.push_back(s.loss + s.accuracy + s.loss_scale); };
  model.fit(data, fit);
  const auto keep = [&](const Tensor& t) { r.bytes.emplace_back(t.bytes().begin(), t.bytes().end()); };
  for (const NamedTensor& p : model.parameters()) keep(p.tensor);
  model.swap_averages();
  for (const NamedTensor& p : model.parameters()) keep(p.tensor);
  r.losses.push_back(model.evaluate(data).loss);
  for (const NamedTensor& p : model.predict(data)) keep(p.tensor);
  return r;
}

using Position = std::string Names::*;
struct Place {
  const char* name;
  Position at;
};
const Place places[] = {{"input", &Names::x}, {"input of indices", &Names::kind}, {"weight", &Names::w}, {"inner value", &Names::hidden},
                        {"output", &Names::out}};

class OnlyAName : public testing::TestWithParam<std::pair<const char*, Precision>> {};

TEST_P(OnlyAName, TrainsToTheSameBits) {
  const auto& [devices, precision] = GetParam();
  const Outcome plain = trained({}, devices, precision);
  ASSERT_EQ(plain.losses.size(), 7U);
  // Each name comes to each place; in 16 bits each to one.
  for (std::size_t turn = 0; turn < std::size(known); turn += precision == Precision::fp32 ? 1 : std::size(places)) {
    Names names;
    std::string which;
    for (std::size_t i = 0; i < std::size(places); ++i) {
      names.*places[i].at = known[(turn + 3 * i) % std::size(known)];
      which += concat(places[i].name, " '", names.*places[i].at, "' ");
    }
    EXPECT_EQ(trained(names, devices, precision), plain) << which;
  }
}
INSTANTIATE_TEST_SUITE_P(Devices, OnlyAName,
                         testing::Values(std::pair{"cpu:0", Precision::fp32}, std::pair{"cpu:0-2", Precision::fp32}, std::pair{"cpu:0", Precision::bf16}),
                         [](const auto& info) { return concat(info.index == 0 ? "one" : info.index == 1 ? "three" : "narrow"); });

// States have the names of weights that the model has, too: a run is kept and goes on.
TEST(Names, CheckpointsTellStatesFromWeights) {
  TemporaryFolder folder;
  const auto weights = [&](bool stops) {
    test::Model m;
    m.input("x", "N,2").add(float_tensor("w", {2, 2}, {0.1F, 0.2F, -0.3F, 0.4F}));
    m.add(float_tensor("momentum/w", {2, 2}, {0.5F, -0.6F, 0.7F, 0.8F}));
    m.add(node("MatMul", {"x", "w"}, {"h"})).add(node("MatMul", {"h", "momentum/w"}, {"loss"}));
    Model model(m.output("loss").parse());
    Tensor x(TensorType{DType::float32, {4, 2}}), y(TensorType{DType::int64, {4}});
    for (std::int64_t i = 0; float& v : x.write<float>()) v = static_cast<float>(i++ % 3) - 1;
    for (std::int64_t i = 0; std::int64_t& v : y.write<std::int64_t>()) v = i++ % 2;
    MemoryDataset data("made here");
    data.add({.name = "x"}, x);
    data.add({.name = "y", .role = Role::label}, y);
    ModelOptions o{.init = "keep"};
    o.plan.batch = 2;
    o.plan.devices = parse_devices("cpu");
    o.plan.optimizer.momentum = 0.9;
    model.compile(o, backends);
    FitOptions fit{.epochs = stops ? 1 : 2, .learning_rate = 0.1};
    fit.run_dir = folder / (stops ? "broken" : "whole");
    model.fit(data, fit);
    if (!stops) return model.parameters();
    Model again(m.parse());
    again.compile(o, backends);
    fit.epochs = 2;
    fit.resume = true;
    again.fit(data, fit);
    return again.parameters();
  };
  const std::vector<NamedTensor> whole = weights(false), broken = weights(true);
  ASSERT_EQ(whole.size(), 2U);
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(whole[i].tensor.to_doubles(), broken[i].tensor.to_doubles()) << whole[i].name;
  const Checkpoint kept = read_checkpoint(folder / "whole" / "last.checkpoint");
  const auto named = [](const std::vector<NamedTensor>& list) {
    std::vector<std::string> names;
    for (const NamedTensor& t : list) names.push_back(t.name);
    std::ranges::sort(names);
    return names;
  };
  EXPECT_EQ(named(kept.weights), (std::vector<std::string>{"momentum/w", "w"}));
  EXPECT_EQ(named(kept.optimizer), (std::vector<std::string>{"momentum/momentum/w", "momentum/w"}));
}

}  // namespace
}  // namespace tandem
