// Training in bf16 on rendered digits, against float32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/backend.h"
#include "trainer/model.h"

namespace tandem {
namespace {

const Backend* const backends[] = {&cpu_backend()};

// Digits as [n, channels, size, size] in 0..1, in the middle of a black frame, and their labels.
std::vector<Tensor> batch_of(const Dataset& digits, std::int64_t first, std::int64_t n, std::int64_t channels, std::int64_t size) {
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < n; ++i) samples.push_back((first + i) % digits.size());
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(n * 28 * 28)), classes(static_cast<std::size_t>(n));
  Tensor images(TensorType{DType::float32, {n, channels, size, size}}), labels(TensorType{DType::int64, {n}});
  for (std::size_t f = 0; f < digits.fields().size(); ++f)
    digits.read(f, samples, reinterpret_cast<std::byte*>(digits.fields()[f].role == Role::label ? classes.data() : pixels.data()));
  std::copy(classes.begin(), classes.end(), labels.write<std::int64_t>().begin());
  const auto out = images.write<float>();
  const std::int64_t frame = (size - 28) / 2;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t y = 0; y < 28; ++y)
        for (std::int64_t x = 0; x < 28; ++x)
          out[static_cast<std::size_t>(((i * channels + c) * size + y + frame) * size + x + frame)] =
              static_cast<float>(pixels[static_cast<std::size_t>((i * 28 + y) * 28 + x)]) / 255;
  return {images, labels};
}

struct Row {
  std::string model;
  std::int64_t channels, size, batch;
  int steps;
  double rate;
};

std::vector<double> losses_of(const Row& row, const Dataset& digits, Precision precision, std::uint64_t seed) {
  Model model = Model::load(std::string(TANDEM_SOURCE_DIR) + "/models/" + row.model + ".onnx");
  ModelOptions o;
  o.plan.batch = row.batch;
  o.plan.devices = parse_devices("cpu");
  o.plan.optimizer.momentum = 0.9;
  o.plan.precision = precision;
  o.init = "he-normal";
  o.seed = seed;
  model.compile(o, backends);
  EXPECT_EQ(model.allocated_bytes(), model.predicted_peak_bytes());
  EXPECT_TRUE(model.plan().warnings.empty()) << model.plan().warnings[0];
  std::vector<double> losses;
  for (int s = 0; s < row.steps; ++s)
    losses.push_back(model.train_on_batch(batch_of(digits, s * row.batch, row.batch, row.channels, row.size), row.rate).loss);
  return losses;
}

double mean_of_last(const std::vector<double>& losses, std::size_t n) {
  double sum = 0;
  for (std::size_t i = losses.size() - n; i < losses.size(); ++i) sum += losses[i];
  return sum / static_cast<double>(n);
}

// Early, while two runs have seen the same weights but for rounding, the losses agree to a few roundings. Later the runs
// part, as any two do that differ in a bit; what they have learnt by then is the same, up to what another choice of first
// weights changes.
TEST(Precision, BFloat16CurvesFollowFloat32) {
  if (const std::string reason = cpu_backend().declines(Precision::bf16); !reason.empty()) GTEST_SKIP() << reason;
  const Splits digits = open_data("synthetic:digits,train=2000,test=10");
  for (const Row& row : {Row{"lenet", 1, 28, 64, 60, 0.02}, Row{"mini_googlenet", 3, 32, 32, 30, 0.02}}) {
    const std::vector<double> wide = losses_of(row, *digits.train, Precision::fp32, 1),
                              narrow = losses_of(row, *digits.train, Precision::bf16, 1);
    for (std::size_t s = 0; s < 3; ++s) EXPECT_NEAR(narrow[s], wide[s], 0.02 * wide[s]) << row.model << ", step " << s;
    const std::size_t last = 10;
    EXPECT_LT(mean_of_last(narrow, last), 0.6 * narrow[0]) << row.model;
    EXPECT_NEAR(mean_of_last(narrow, last), mean_of_last(wide, last), 0.15 * wide[0]) << row.model;
    EXPECT_NE(narrow, wide) << row.model << ": it ran in float32";
  }
}

// No step casts a weight, or a gradient: updates write the weights in both forms, and read gradients in 16 bits where nothing sums them in
// between. Weights that are set from outside reach both forms.
TEST(Precision, UpdatesKeepWeightsInBothForms) {
  if (const std::string reason = cpu_backend().declines(Precision::bf16); !reason.empty()) GTEST_SKIP() << reason;
  const Splits digits = open_data("synthetic:digits,train=64,test=10");
  for (const char* const devices : {"cpu", "cpu:0-1"})
    for (const auto& [optimizer, clip_norm] : {std::pair{"sgd", 0.0}, {"sgd", 0.5}, {"adamw", 0.0}, {"lars", 0.0}}) {
      SCOPED_TRACE(concat(optimizer, " clipped to ", clip_norm, " on ", devices));
      ModelOptions o;
      o.plan.batch = 16;
      o.plan.devices = parse_devices(devices);
      o.plan.optimizer = optimizer_defaults(optimizer);
      o.plan.optimizer.clip_norm = clip_norm;
      o.plan.precision = Precision::bf16;
      o.init = "he-normal";
      o.seed = 1;
      Model model = Model::load(std::string(TANDEM_SOURCE_DIR) + "/models/lenet.onnx"),
            again = Model::load(std::string(TANDEM_SOURCE_DIR) + "/models/lenet.onnx");
      model.compile(o, backends);
      again.compile(o, backends);
      EXPECT_TRUE(model.plan().warnings.empty()) << model.plan().warnings[0];
      std::size_t copies = 0;
      for (const PlanParameter& p : model.plan().parameters) copies += p.role == ValueRole::copy;
      EXPECT_EQ(copies, 8U);
      for (const DeviceProgram& d : model.plan().programs)
        for (const Step& s : d.steps) {
          if (s.op() != "Cast") continue;
          EXPECT_NE(d.buffers[s.inputs[0]].arena, ArenaKind::parameters);
          EXPECT_TRUE(d.buffers[s.outputs[0]].memory != MemoryClass::gradients || model.plan().devices.size() > 1);
        }
      const std::vector<Tensor> first = batch_of(*digits.train, 0, 16, 1, 28), second = batch_of(*digits.train, 16, 16, 1, 28);
      model.train_on_batch(first, 0.05);
      again.set_parameters(model.parameters());
      EXPECT_EQ(again.train_on_batch(second, 0.05).loss, model.train_on_batch(second, 0.05).loss);
    }
}

}  // namespace
}  // namespace tandem
