// Training with products in 8 bits: what is learnt, and what a checkpoint carries on.
#include <cmath>

#include "graph/fp8.h"
#include "kernels/cpu/backend.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/checkpoint.h"
#include "trainer/model.h"

namespace tandem {
namespace {

const Backend* const backends[] = {&cpu_backend()};

struct Trained {
  std::vector<double> losses;
  std::vector<NamedTensor> parameters;
};

// The MLP's middle product, of 512 by 512, is in 8 bits.
Trained train(Precision precision, const std::string& devices, FitOptions fit, const Dataset& data) {
  Model model = Model::load(std::string(TANDEM_SOURCE_DIR) + "/models/mlp.onnx");
  ModelOptions o;
  o.plan.batch = 48;
  o.plan.devices = parse_devices(devices);
  o.plan.optimizer.momentum = 0.9;
  o.plan.precision = precision;
  o.init = "he-normal";
  model.compile(o, backends);
  Trained run;
  fit.learning_rate = 0.02;
  fit.callbacks.on_step = [&](const StepReport& r) { run.losses.push_back(r.loss); };
  model.fit(data, fit);
  run.parameters = model.parameters();
  return run;
}

struct Fp8Runs : testing::Test {
  void SetUp() override {
    if (const std::string reason = cpu_backend().declines(Precision::fp8); !reason.empty()) GTEST_SKIP() << reason;
  }
  // 200 samples in batches of 48: the last one is short, and its plan shares the scales.
  const Splits data = open_data("synthetic:digits,train=200,test=10");
};

TEST_F(Fp8Runs, LearnAsBFloat16Does) {
  const Trained wide = train(Precision::bf16, "cpu", {.epochs = 8}, *data.train),
                narrow = train(Precision::fp8, "cpu", {.epochs = 8}, *data.train);
  ASSERT_EQ(wide.losses.size(), 40U);
  EXPECT_LT(narrow.losses.back(), 0.5 * narrow.losses[0]);
  for (std::size_t s = 0; s < wide.losses.size(); ++s) EXPECT_NEAR(narrow.losses[s], wide.losses[s], 0.05 * wide.losses[0]) << "step " << s;
  EXPECT_NE(narrow.losses, wide.losses) << "it ran in bf16";
}

TEST_F(Fp8Runs, GoOnToTheSameBits) {
  for (const char* const devices : {"cpu", "cpu:0-1"}) {
    const TemporaryFolder folder;
    const Trained whole = train(Precision::fp8, devices, {.epochs = 3}, *data.train);
    train(Precision::fp8, devices, {.epochs = 1, .run_dir = folder / "run"}, *data.train);
    const Checkpoint checkpoint = read_checkpoint(folder / "run/last.checkpoint");
    const auto state =
        std::find_if(checkpoint.optimizer.begin(), checkpoint.optimizer.end(), [](const NamedTensor& t) { return t.name == "tandem.fp8"; });
    ASSERT_NE(state, checkpoint.optimizer.end());
    EXPECT_EQ(state->tensor.shape(), (Shape{3, Fp8Row::count})) << "values, weight and gradient of one product";
    for (int row = 0; row < 3; ++row)
      EXPECT_GT(state->tensor.values<float>()[static_cast<std::size_t>(row * Fp8Row::count + 5)], 0) << "five steps";
    const Trained rest = train(Precision::fp8, devices, {.epochs = 3, .run_dir = folder / "run", .resume = true}, *data.train);
    EXPECT_TRUE(std::equal(rest.losses.begin(), rest.losses.end(), whole.losses.begin() + 5, whole.losses.end()));
    for (std::size_t i = 0; i < whole.parameters.size(); ++i)
      EXPECT_TRUE(std::ranges::equal(rest.parameters[i].tensor.bytes(), whole.parameters[i].tensor.bytes()))
          << devices << ", " << whole.parameters[i].name;
  }
}

}  // namespace
}  // namespace tandem
