// What BatchNormalization's running variance follows: the population variance, as ONNX has it, or the unbiased one, as PyTorch has it, on
// one device, over uneven ones, synchronized, and with averages kept beside it. And what training_mode = 1 means where nothing is trained.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::float_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};
constexpr std::int64_t samples = 7, places = 3;

double at(std::int64_t n, std::int64_t c, std::int64_t i) { return std::sin(static_cast<double>(31 * n + 7 * c + i + 1)); }

// y = BatchNormalization(x [N,2,3]) with running statistics of which the mean is `mean`, the variance 1.
std::string normalizing(const std::string& producer, std::vector<float> mean = {0, 0}, std::int64_t training_mode = 0) {
  test::Model m;
  m.input("x", "N,2,3")
      .add(float_tensor("scale", {2}, {1, 1}))
      .add(float_tensor("bias", {2}, {0, 0}))
      .add(float_tensor("mean", {2}, mean))
      .add(float_tensor("var", {2}, {1, 1}));
  m.add(node("BatchNormalization", {"x", "scale", "bias", "mean", "var"}, {"y"}, {{"momentum", 0.75F}, {"training_mode", training_mode}}));
  m.output("y");
  m.proto.set_producer_name(producer);
  return m.bytes();
}

MemoryDataset data_of() {
  Tensor x(TensorType{DType::float32, Shape{samples, 2, places}});
  std::size_t k = 0;
  for (std::int64_t n = 0; n < samples; ++n)
    for (std::int64_t c = 0; c < 2; ++c)
      for (std::int64_t i = 0; i < places; ++i) x.write<float>()[k++] = static_cast<float>(at(n, c, i));
  MemoryDataset data("made here");
  data.add({.name = "x"}, x);
  data.add({.name = "y", .role = Role::label}, x);
  return data;
}

struct Part {
  std::int64_t first, count;
};

// The variance of a channel's values of these samples.
double variance(std::int64_t c, const Part& part, bool unbiased) {
  double sum = 0, squares = 0;
  const double n = static_cast<double>(part.count * places);
  for (std::int64_t s = part.first; s < part.first + part.count; ++s)
    for (std::int64_t i = 0; i < places; ++i) sum += at(s, c, i);
  for (std::int64_t s = part.first; s < part.first + part.count; ++s)
    for (std::int64_t i = 0; i < places; ++i) squares += std::pow(at(s, c, i) - sum / n, 2);
  return squares / (unbiased ? n - 1 : n);
}

struct Row {
  const char *name, *producer;
  std::optional<bool> option;
  bool unbiased;
  const char *devices = "cpu", *shares = "";
  bool synchronized = false;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class RunningVarianceOf : public testing::TestWithParam<Row> {};
INSTANTIATE_TEST_SUITE_P(Rows, RunningVarianceOf,
                         testing::Values(Row{"onnx", "", {}, false}, Row{"pytorch", "pytorch", {}, true}, Row{"asked_for", "keras", true, true}, Row{"asked_not_for", "pytorch", false, false},
                                         Row{"uneven_devices", "pytorch", {}, true, "cpu:0-2", "3,1,2"}, Row{"devices_of_onnx", "", {}, false, "cpu:0-2", "3,1,2"},
                                         Row{"synchronized", "pytorch", {}, true, "cpu:0-2", "3,1,2", true}),
                         [](const auto& row) { return row.param.name; });

TEST_P(RunningVarianceOf, MovesTowardsIt) {
  const Row& row = GetParam();
  Model model(ModelFile::parse(normalizing(row.producer), {}));
  const MemoryDataset data = data_of();
  ModelOptions o{.init = "keep"};
  o.plan.batch = samples;
  o.plan.devices = parse_devices(row.devices, row.shares);
  o.plan.loss.name = "mse";
  o.plan.synchronize_batch_norm = row.synchronized;
  o.plan.optimizer.average = true;
  o.unbiased_variance = row.option;
  model.source().fit_labels(o, data);
  model.compile(o, backends);
  model.fit(data, {.learning_rate = 0, .shuffle = false, .averaging = {.ema = 0.5}});
  std::vector<Part> parts{{0, samples}};
  if (std::string(row.shares) != "" && !row.synchronized) {
    parts.clear();
    std::int64_t first = 0;
    for (const PlanDevice& d : model.plan().devices) {
      parts.push_back({first, d.slice_size});
      first += d.slice_size;
    }
    ASSERT_GT(parts[0].count, parts[1].count);
  }
  for (const NamedTensor& p : model.parameters()) {
    if (p.name != "var") continue;
    for (std::int64_t c = 0; c < 2; ++c) {
      double mean = 0;
      for (const Part& part : parts)
        mean += variance(c, part, row.unbiased) * static_cast<double>(part.count) / static_cast<double>(samples);
      EXPECT_NEAR(p.tensor.values<float>()[static_cast<std::size_t>(c)], 0.75 + 0.25 * mean, 1e-6);
    }
  }
}

// Averages of the statistics are those of what they become.
TEST(RunningVariance, IsAveragedAsItIs) {
  Model model(ModelFile::parse(normalizing("pytorch"), {}));
  const MemoryDataset data = data_of();
  ModelOptions o{.init = "keep"};
  o.plan.batch = samples;
  o.plan.devices = parse_devices("cpu");
  o.plan.loss.name = "mse";
  o.plan.optimizer.average = true;
  model.source().fit_labels(o, data);
  model.compile(o, backends);
  model.fit(data, {.learning_rate = 0, .shuffle = false, .averaging = {.ema = 0.5}});  // the first weights are taken as they are
  const auto held = [&] {
    for (const NamedTensor& p : model.parameters())
      if (p.name == "var") return p.tensor.values<float>()[0];
    return 0.0F;
  };
  const float now = held();
  ASSERT_TRUE(model.swap_averages());
  EXPECT_NEAR(held(), now, 1e-6);
}

Tensor predicted(const std::string& bytes, std::vector<std::string>& notes, std::int64_t batch = samples) {
  Model model(ModelFile::parse(bytes, {}));
  ModelOptions o;
  o.plan.mode = PlanMode::inference;
  o.plan.batch = batch;
  o.plan.devices = parse_devices("cpu");
  model.compile(o, backends);
  notes = model.notes();
  return model.predict(data_of())[0].tensor;
}

bool says(const std::vector<std::string>& notes, std::string_view what) {
  return std::any_of(notes.begin(), notes.end(), [&](const std::string& n) { return n.find(what) != std::string::npos; });
}

TEST(TrainingMode, OfStatisticsThatMovedIsInferenceAndTold) {
  std::vector<std::string> notes;
  const Tensor y = predicted(normalizing("", {0.5F, -0.25F}, 1), notes);
  EXPECT_TRUE(says(notes, "of training_mode=1 is computed by the running statistics"));
  EXPECT_NEAR(y.values<float>()[0], (at(0, 0, 0) - 0.5) / std::sqrt(1 + 1e-5), 1e-6);
}

// As ONNX Runtime computes it, which has the batch's in a graph of one batch.
TEST(TrainingMode, OfUntouchedStatisticsTakesTheBatchs) {
  std::vector<std::string> notes;
  const Tensor y = predicted(normalizing("", {0, 0}, 1), notes);
  EXPECT_TRUE(says(notes, "untouched statistics 0 and 1"));
  double mean = 0;
  for (std::int64_t n = 0; n < samples; ++n)
    for (std::int64_t i = 0; i < places; ++i) mean += at(n, 0, i) / static_cast<double>(samples * places);
  EXPECT_NEAR(y.values<float>()[0], (at(0, 0, 0) - mean) / std::sqrt(variance(0, {0, samples}, false) + 1e-5), 1e-5);
  // A short last batch is not filled up with samples that it has not.
  const Tensor short_last = predicted(normalizing("", {0, 0}, 1), notes, 5);
  double last = 0;
  for (std::int64_t n = 5; n < samples; ++n)
    for (std::int64_t i = 0; i < places; ++i) last += at(n, 0, i) / static_cast<double>(2 * places);
  EXPECT_NEAR(short_last.values<float>()[5 * 2 * places], (at(5, 0, 0) - last) / std::sqrt(variance(0, {5, 2}, false) + 1e-5), 1e-5);
}

TEST(TrainingMode, OrdinaryNormalizationsAreNotTold) {
  std::vector<std::string> notes;
  predicted(normalizing(""), notes);
  EXPECT_FALSE(says(notes, "training_mode"));
}

}  // namespace
}  // namespace tandem
