// What a run does with gradients, rates and averages: micro-batches, groups, averages, early stopping, the test of rates.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "kernels/cpu/backend.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

const Backend* backends[] = {&cpu_backend()};

ModelOptions options(std::int64_t batch, const char* optimizer = "momentum", const char* devices = "cpu:0") {
  ModelOptions o{.init = "he-normal", .seed = 5};
  o.plan.batch = batch;
  o.plan.devices = parse_devices(devices);
  o.plan.kernel.deterministic = true;
  o.plan.optimizer = optimizer_defaults(optimizer);
  return o;
}

Model compiled(const ModelOptions& o, const char* model = "mlp") {
  Model m = Model::load(std::filesystem::path(TANDEM_SOURCE_DIR) / concat("models/", model, ".onnx"));
  m.compile(o, backends);
  return m;
}

Splits digits(Model& m, const char* spec = "synthetic:digits,train=75,test=20") { return open_data(spec, m.data_request()); }

using Values = std::map<std::string, std::vector<float>>;
Values values_of(const Model& m) {
  Values all;
  for (const NamedTensor& t : m.parameters()) {
    const auto v = t.tensor.values<float>();
    all[t.name].assign(v.begin(), v.end());
  }
  return all;
}

void expect_near(const Values& a, const Values& b, double tolerance) {
  for (const auto& [name, values] : a)
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], b.at(name)[i], tolerance) << name << " at " << i;
}

struct Accumulated {
  const char* name;
  void (*set)(OptimizerOptions& o);
  const char* devices;
};
class Accumulation : public testing::TestWithParam<Accumulated> {};

// 75 samples: batches of 32, 32 and 11, or micro-batches: four, four and two of 8, and of 11: two of 5, and one sample that fills one.
TEST_P(Accumulation, IsOneLargeBatch) {
  ModelOptions large = options(32), small = options(32, "momentum", GetParam().devices);
  for (ModelOptions* o : {&large, &small}) GetParam().set(o->plan.optimizer);
  small.plan.parallel.micro_batches = 4;
  Model a = compiled(large), b = compiled(small);
  const Splits data = digits(a);
  const History x = a.fit(*data.train, {.epochs = 2, .learning_rate = 0.05});
  const History y = b.fit(*data.train, {.epochs = 2, .learning_rate = 0.05});
  EXPECT_EQ(x.steps, y.steps);
  EXPECT_EQ(x.steps, 6);
  for (std::size_t e = 0; e < 2; ++e) {
    EXPECT_NEAR(x.epochs[e].loss, y.epochs[e].loss, 1e-5);
    EXPECT_NEAR(x.epochs[e].accuracy, y.epochs[e].accuracy, 1e-9);
  }
  expect_near(values_of(a), values_of(b), 5e-6);
}
INSTANTIATE_TEST_SUITE_P(Ways, Accumulation,
                         testing::Values(Accumulated{"plain", [](OptimizerOptions&) {}, "cpu:0"}, Accumulated{"clip_norm", [](OptimizerOptions& o) { o.clip_norm = 0.5; }, "cpu:0"},
                                         Accumulated{"two_devices", [](OptimizerOptions& o) { o.clip_norm = 0.5, o.clip_value = 0.1; }, "cpu:0-1"},
                                         Accumulated{"lars", [](OptimizerOptions& o) { o = optimizer_defaults("lars"), o.clip_parameter_norm = 0.3; }, "cpu:0"}),
                         [](const auto& info) { return info.param.name; });

TEST(Clipping, HoldsTheNormOnEveryNumberOfDevices) {
  std::vector<Values> all;
  for (const char* devices : {"cpu:0", "cpu:0-1", "cpu:0-3"}) {
    ModelOptions o = options(25, "sgd", devices);
    o.plan.optimizer.clip_norm = 0.01;
    Model m = compiled(o);
    const Splits data = digits(m);
    const Values before = values_of(m);
    m.fit(*data.train, {.epochs = 0, .steps = 1, .learning_rate = 1});
    double moved = 0;
    for (const auto& [name, values] : values_of(m))
      for (std::size_t i = 0; i < values.size(); ++i) moved += std::pow(static_cast<double>(values[i] - before.at(name)[i]), 2);
    EXPECT_NEAR(std::sqrt(moved), 0.01, 1e-5) << devices;
    m.fit(*data.train, {.epochs = 2, .learning_rate = 1});
    all.push_back(values_of(m));
  }
  expect_near(all[0], all[1], 1e-5);
  expect_near(all[0], all[2], 1e-5);
}

TEST(Groups, MoveByTheirOwnRatesFromTheirEpochsOn) {
  ModelOptions o = options(25, "sgd");
  o.plan.optimizer.groups = {{.patterns = {"fc1*"}, .from = 1}, {.patterns = {"bias"}, .rate = 0}};
  Model m = compiled(o);
  const Splits data = digits(m);
  std::vector<Values> after{values_of(m)};
  FitOptions fit{.epochs = 2, .learning_rate = 0.05};
  fit.callbacks.on_epoch = [&](const EpochReport&) { after.push_back(values_of(m)); };
  m.fit(*data.train, fit);
  for (const auto& [name, values] : after[0]) {
    const bool first = name.starts_with("fc1"), bias = name.ends_with("bias");
    EXPECT_EQ(after[1].at(name) == values, first || bias) << name << " after an epoch";
    EXPECT_EQ(after[2].at(name) == values, bias && !first) << name << " after two";
  }
}

TEST(Groups, ThatNameNothingAreRefused) {
  ModelOptions o = options(25);
  o.plan.optimizer.groups = {{.patterns = {"fc1.weigth"}, .rate = 0.1}};
  Model m = Model::load(std::filesystem::path(TANDEM_SOURCE_DIR) / "models/mlp.onnx");
  expect_error(ExitCode::usage, "did you mean 'fc1.weight'?", [&] { m.source().check(o, backends); });
}

// Averages by hand from the weights after every step.
TEST(Averages, AreThoseOfTheWeights) {
  for (const Averaging averaging : {Averaging{.ema = 0.75}, Averaging{.ema = 0.75, .from = 1}, Averaging{.swa = true, .from = 1}}) {
    ModelOptions o = options(25);
    o.plan.optimizer.average = true;
    Model m = compiled(o);
    const Splits data = digits(m);
    Values average;
    int counted = 0;
    FitOptions fit{.epochs = 3, .learning_rate = 0.05, .averaging = averaging};
    fit.callbacks.on_step = [&](const StepReport& r) {
      const bool begun = static_cast<double>(r.step) > averaging.from * 3, ends = r.step % 3 == 0;
      double share = 0;
      if (!begun || (counted == 0 && (averaging.ema > 0 || !ends)))
        share = 1;
      else if (averaging.ema > 0)
        share = 1 - averaging.ema;
      else if (ends)
        share = 1.0 / (counted + 1);
      counted += begun && (averaging.ema > 0 || ends);
      for (const auto& [name, values] : values_of(m)) {
        average[name].resize(values.size());
        for (std::size_t i = 0; i < values.size(); ++i) average[name][i] += static_cast<float>(share) * (values[i] - average[name][i]);
      }
    };
    m.fit(*data.train, fit);
    const Values last = values_of(m);
    ASSERT_TRUE(m.swap_averages());
    expect_near(values_of(m), average, 1e-6);
    EXPECT_NE(values_of(m), last);
    ASSERT_TRUE(m.swap_averages());
    EXPECT_EQ(values_of(m), last);
  }
}

// On devices that keep both in the same parts, or in others, and with copies of the weights in 16 bits.
TEST(Averages, ChangePlacesWithTheWeightsWhereverTheyLie) {
  struct Row {
    const char* devices;
    int zero;
    Precision precision;
  };
  Values wanted;
  for (const Row& row : {Row{"cpu:0", 0, Precision::fp32}, {"cpu:0-1", 0, Precision::fp32}, {"cpu:0-1", 1, Precision::fp32},
                         {"cpu:0-1", 3, Precision::fp32}, {"cpu:0", 0, Precision::bf16}, {"cpu:0-1", 1, Precision::bf16}}) {
    SCOPED_TRACE(concat(row.devices, " zero=", row.zero, row.precision == Precision::bf16 ? " bf16" : ""));
    ModelOptions o = options(24, "momentum", row.devices);
    o.plan.optimizer.average = true;
    o.plan.parallel.zero = row.zero;
    o.plan.precision = row.precision;
    Model m = compiled(o), other = compiled(o);
    const Splits data = digits(m, "synthetic:digits,train=72,test=24");
    m.fit(*data.train, {.epochs = 2, .learning_rate = 0.05, .averaging = {.ema = 0.75}});
    const Values last = values_of(m);
    const auto expect_used = [&] {  // what is computed with are the values that can be read
      other.set_parameters(m.parameters());
      EXPECT_EQ(m.evaluate(*data.test).loss, other.evaluate(*data.test).loss);
    };
    ASSERT_TRUE(m.swap_averages());
    const Values average = values_of(m);
    EXPECT_NE(average, last);
    if (wanted.empty()) wanted = average;
    if (row.precision == Precision::fp32) expect_near(average, wanted, 1e-5);
    expect_used();
    ASSERT_TRUE(m.swap_averages());
    EXPECT_EQ(values_of(m), last);
    expect_used();
    ASSERT_TRUE(m.swap_averages());
    other.set_parameters(m.parameters());
    std::vector<std::int64_t> classes(24);
    for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = static_cast<std::int64_t>(i % 10);
    const std::vector<Tensor> batch{Tensor(TensorType{DType::float32, {24, 1, 28, 28}}), Tensor::of<std::int64_t>({24}, classes)};
    EXPECT_EQ(m.train_on_batch(batch, 0.05).loss, other.train_on_batch(batch, 0.05).loss) << "a step reads copies in 16 bits";
  }
}

// Broken off after two epochs and gone on with: bit by bit the same.
TEST(Runs, GoOnExactlyWithAveragesAndMeasures) {
  const TemporaryFolder folder;
  const auto run = [&](std::int64_t epochs, bool resume, const std::string& name, const char* devices, Values& averages) {
    ModelOptions o = options(30, "nadam", devices);
    o.plan.parallel.micro_batches = 3;
    o.plan.optimizer.average = true;
    o.plan.optimizer.clip_norm = 1;
    Model m = compiled(o);
    const Splits data = digits(m);
    FitOptions fit{.epochs = epochs,
                   .learning_rate = 0.01,
                   .schedule = parse_schedule("plateau,patience=0,threshold=0.5"),
                   .validation = data.test.get(),
                   .run_dir = folder / name,
                   .resume = resume,
                   .averaging = {.ema = 0.9},
                   .early_stopping = {.patience = 9}};
    const History h = m.fit(*data.train, fit);
    const Values last = values_of(m);
    m.swap_averages();
    averages = values_of(m);
    return std::pair(last, h.epochs.back().learning_rate);
  };
  for (const char* devices : {"cpu:0", "cpu:0-1"}) {
    const std::string name = concat("run", devices[4], std::string(devices).size());
    Values a, b;
    const auto whole = run(4, false, name + "a", devices, a);
    run(2, false, name + "b", devices, b);
    const auto rest = run(4, true, name + "b", devices, b);
    EXPECT_EQ(whole, rest) << devices;
    EXPECT_LT(whole.second, 0.01) << "the plateau was never reached";
    EXPECT_EQ(a, b) << devices;
  }
}

TEST(EarlyStopping, EndsTheRun) {
  Model m = compiled(options(25, "sgd"));
  const Splits data = digits(m);
  const History h =
      m.fit(*data.train, {.epochs = 50, .learning_rate = 0, .validation = data.test.get(), .early_stopping = {.patience = 3}});
  EXPECT_TRUE(h.stopped_early);
  EXPECT_FALSE(h.stopped);
  EXPECT_EQ(h.epochs.size(), 4u);  // the first is the best
}

TEST(RateTests, PutEverythingBack) {
  Model m = compiled(options(25, "adam")), other = compiled(options(25, "adam"));
  const Splits data = digits(m, "synthetic:digits,train=500,test=20");
  const RateTest found = m.test_rates(*data.train, {}, {.least = 1e-6, .most = 100, .steps = 60});
  EXPECT_GT(found.suggestion, 1e-5);
  EXPECT_LT(found.suggestion, 1);
  EXPECT_EQ(found.rates.size(), found.smoothed.size());
  for (Model* model : {&m, &other}) model->fit(*data.train, {.epochs = 1});
  EXPECT_EQ(values_of(m), values_of(other));
}

struct Refused {
  FitOptions fit;
  const char* said;
};
TEST(FitOptionsOf, AreRefused) {
  Model m = compiled(options(25));
  const Splits data = digits(m);
  for (const Refused& row : {Refused{{.averaging = {.ema = 1}}, "option ema"},
                             {{.averaging = {.ema = 0.9, .swa = true}}, "give one"},
                             {{.averaging = {.swa = true}}, "compiled without them"},
                             {{.early_stopping = {.patience = -1}}, "early_stopping"}})
    expect_error(ExitCode::usage, row.said, [&] { m.fit(*data.train, row.fit); });
}

}  // namespace
}  // namespace tandem
