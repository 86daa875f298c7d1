// What becomes of running statistics beside averages of the weights, and of steps of several batches in 16 bits.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::filled_tensor, test::float_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};

// Of 2 channels: normalization, then a product of 8 by 3.
std::string normalized(float scale = 1) {
  test::Model m;
  m.input("x", "N,2,2,2").output("y");
  m.add(float_tensor("bn.scale", {2}, {scale, scale})).add(filled_tensor("bn.var", {2}, 1));
  for (const char* part : {"bn.bias", "bn.mean"}) m.add(filled_tensor(part, {2}, 0));
  std::vector<float> w(24);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = 0.1F * static_cast<float>(i % 7) - 0.3F;
  m.add(float_tensor("w", {8, 3}, w)).add(node("BatchNormalization", {"x", "bn.scale", "bn.bias", "bn.mean", "bn.var"}, {"n"}));
  m.add(node("Flatten", {"n"}, {"f"})).add(node("MatMul", {"f", "w"}, {"y"}));
  return m.bytes();
}

MemoryDataset data() {
  Tensor x(TensorType{DType::float32, Shape{24, 2, 2, 2}}), y(TensorType{DType::int64, Shape{24}});
  const auto values = x.write<float>();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1.5F + 2 * std::sin(static_cast<float>(i * i % 97));
  const auto labels = y.write<std::int64_t>();
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i * 5 % 3);
  MemoryDataset set("made here");
  set.add({.name = "x"}, x);
  set.add({.name = "y", .role = Role::label}, y);
  return set;
}

using Values = std::map<std::string, std::vector<double>>;
Values values_of(const Model& m) {
  Values all;
  for (const NamedTensor& t : m.parameters()) all[t.name] = t.tensor.to_doubles();
  return all;
}
void expect_near(const Values& a, const Values& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, values] : a)
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], b.at(name)[i], tolerance) << name << " at " << i;
}

ModelOptions options(std::int64_t batch, const char* devices = "cpu:0") {
  ModelOptions o;
  o.plan.batch = batch;
  o.plan.devices = parse_devices(devices);
  o.plan.optimizer = optimizer_defaults("momentum");
  return o;
}

struct Row {
  const char* name;
  const char* devices;
  std::int64_t batch, parts;
  Averaging averaging;
};
class Statistics : public testing::TestWithParam<Row> {};

// As AveragedModel(use_buffers=True): every tensor's average, made by hand of the values after each step.
TEST_P(Statistics, AreAveragedAsTheWeightsAre) {
  const Row& row = GetParam();
  ModelOptions o = options(row.batch, row.devices);
  o.plan.optimizer.average = true;
  o.plan.parallel.micro_batches = row.parts;
  o.plan.synchronize_batch_norm = true;
  Model model(ModelFile::parse(normalized(), {}));
  model.compile(o, backends);
  const std::int64_t per_epoch = 24 / row.batch;
  Values average = values_of(model);
  std::int64_t counted = 0;
  FitOptions fit{.epochs = 3, .learning_rate = 0.1, .averaging = row.averaging};
  fit.callbacks.on_step = [&](const StepReport& r) {
    const bool ends = r.step % per_epoch == 0;
    double share = row.averaging.ema > 0 ? 1 - row.averaging.ema : ends ? 1.0 / static_cast<double>(counted + 1) : 0;
    if (counted == 0) share = 1;
    counted += row.averaging.ema > 0 || ends;
    for (const auto& [name, values] : values_of(model))
      for (std::size_t i = 0; i < values.size(); ++i) average[name][i] += share * (values[i] - average[name][i]);
  };
  model.fit(data(), fit);
  const Values last = values_of(model);
  ASSERT_TRUE(model.swap_averages());
  expect_near(values_of(model), average, 2e-6);
  EXPECT_NE(values_of(model).at("bn.mean"), last.at("bn.mean"));
  ASSERT_TRUE(model.swap_averages());
  EXPECT_EQ(values_of(model), last);
}

INSTANTIATE_TEST_SUITE_P(Averages, Statistics,
                         testing::Values(Row{"moving", "cpu:0", 6, 1, {.ema = 0.75}}, Row{"of_two_devices", "cpu:0-1", 6, 1, {.ema = 0.75}},
                                         Row{"of_two_micro_batches", "cpu:0", 12, 2, {.ema = 0.5}}, Row{"of_epochs", "cpu:0", 6, 1, {.swa = true}},
                                         Row{"of_micro_batches", "cpu:0", 6, 3, {.ema = 0.75}}),
                         [](const auto& info) { return info.param.name; });

// A step moves them as its micro-batches do one behind the other, on one device and where replicas take the mean of theirs.
TEST(MicroBatches, MoveStatisticsOnceAStep) {
  constexpr int rows = 24, parts = 4, devices = 2, own = rows / parts / devices, plane = 4;
  for (const bool replicas : {false, true}) {
    ModelOptions o = options(rows, replicas ? "cpu:0-1" : "cpu:0");
    o.plan.parallel.micro_batches = parts;
    Model model(ModelFile::parse(normalized(), {}));
    model.compile(o, backends);
    FitOptions fit{.epochs = 1, .learning_rate = 0, .shuffle = false};
    const MemoryDataset set = data();
    model.fit(set, fit);
    const auto x = [](int i) { return static_cast<double>(1.5F + 2 * std::sin(static_cast<float>(i * i % 97))); };
    for (int channel = 0; channel < 2; ++channel) {
      double mean = 0, variance = 1;
      for (int part = 0; part < parts; ++part) {
        double means = 0, variances = 0;
        const int groups = replicas ? devices : 1, each = replicas ? own : devices * own;
        for (int g = 0; g < groups; ++g) {
          double sum = 0, squares = 0;
          for (int r = 0; r < each; ++r)
            for (int p = 0; p < plane; ++p) {
              const double v = x(((part * groups + g) * each + r) * 2 * plane + channel * plane + p);
              sum += v;
              squares += v * v;
            }
          const double n = each * plane, m = sum / n;
          means += m / groups;
          variances += (squares / n - m * m) / groups;
        }
        mean = 0.9 * mean + 0.1 * means;
        variance = 0.9 * variance + 0.1 * variances;
      }
      EXPECT_NEAR(values_of(model).at("bn.mean")[static_cast<std::size_t>(channel)], mean, 1e-5);
      EXPECT_NEAR(values_of(model).at("bn.var")[static_cast<std::size_t>(channel)], variance, 1e-5);
    }
  }
}

// A step whose gradients are not finite leaves them as they were, with micro-batches, too, and over stages.
TEST(MicroBatches, OfASkippedStepMoveNothing) {
  struct Way {
    std::int64_t parts, stages;
  };
  for (const auto& [parts, stages] : {Way{1, 1}, Way{4, 1}, Way{4, 2}}) {
    SCOPED_TRACE(concat(parts, " micro-batches, ", stages, " stages"));
    ModelOptions o = options(24, stages > 1 ? "cpu:0-1" : "cpu:0");
    o.plan.precision = Precision::bf16;
    o.plan.loss.scaling = LossScaling{.start = 1e38};
    o.plan.parallel.micro_batches = parts;
    o.plan.parallel.pipeline = stages;
    Model model(ModelFile::parse(normalized(1e3F), {}));
    model.compile(o, backends);
    const Values before = values_of(model);
    double scale = 0;
    FitOptions fit{.epochs = 1, .learning_rate = 0.05, .shuffle = false};
    fit.callbacks.on_step = [&](const StepReport& r) { scale = r.loss_scale; };
    for (const double wanted : {1e38, 5e37}) {
      model.fit(data(), fit);
      EXPECT_NEAR(scale, wanted, 1e33);
      EXPECT_EQ(values_of(model), before);
    }
  }
}

// fp16 trains on GPUs alone; bfloat16 with a scaled loss takes the same way.
TEST(HalfPrecision, SumsAScaledLossOfMicroBatchesAsOneLargeBatch) {
  test::Model m;
  m.input("x", "N,2,2,2").output("y").add(node("Flatten", {"x"}, {"f"}));
  std::vector<float> w(24);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = 0.1F * static_cast<float>(i % 7) - 0.3F;
  m.add(float_tensor("w", {8, 3}, w)).add(node("MatMul", {"f", "w"}, {"y"}));
  std::vector<Values> after;
  for (const std::int64_t parts : {1, 4}) {
    ModelOptions o = options(24);
    o.plan.precision = Precision::bf16;
    o.plan.loss.scaling = LossScaling{.start = 1024};
    o.plan.parallel.micro_batches = parts;
    Model model(ModelFile::parse(m.bytes(), {}));
    model.compile(o, backends);
    double scale = 0;
    FitOptions fit{.epochs = 4, .learning_rate = 0.05, .shuffle = false};
    fit.callbacks.on_step = [&](const StepReport& r) { scale = r.loss_scale; };
    const Values before = values_of(model);
    EXPECT_EQ(model.fit(data(), fit).steps, 4);
    EXPECT_EQ(scale, 1024);
    EXPECT_NE(values_of(model), before);
    after.push_back(values_of(model));
  }
  expect_near(after[0], after[1], 1e-3);  // gradients are rounded to 8 bits
}

}  // namespace
}  // namespace tandem
