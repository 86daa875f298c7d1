// The project's own models under budgets of memory: as many bytes as planned, and the losses and weights of the plan without, to the bit.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "kernels/cpu/backend.h"
#include "trainer/model.h"

namespace tandem {
namespace {

struct Outcome {
  std::vector<double> losses;
  std::vector<NamedTensor> weights;
  std::int64_t planned = 0, allocated = 0;
  std::string recompute;
};

Outcome train(const std::string& file, std::optional<double> share) {
  const Backend* backends[] = {&cpu_backend()};
  Model model = Model::load(std::filesystem::path(TANDEM_SOURCE_DIR) / file);
  ModelOptions options{.init = "he-normal"};
  options.plan.batch = 2;
  options.plan.devices = {{{"cpu", 0}}};
  if (share) options.plan.memory.budget = MemoryBudget{.share = share};
  model.compile(options, backends);
  std::mt19937 generator(7);
  std::normal_distribution<float> normal;
  std::vector<Tensor> batch;
  for (const HostInput& input : model.plan().inputs) {
    if (input.role == ValueRole::step_state) continue;
    Tensor& t = batch.emplace_back(input.type);
    if (input.type.dtype == DType::float32)
      for (float& v : t.write<float>()) v = normal(generator);
    else
      for (std::int64_t& v : t.write<std::int64_t>()) v = static_cast<std::int64_t>(generator() % 2);
  }
  Outcome run;
  for (int step = 0; step < 2; ++step) run.losses.push_back(model.train_on_batch(batch, 0.01).loss);
  run.weights = model.parameters();
  run.planned = model.predicted_peak_bytes();
  run.allocated = model.allocated_bytes();
  run.recompute = model.plan().recompute;
  return run;
}

class RecomputeModels : public testing::TestWithParam<const char*> {};

TEST_P(RecomputeModels, SameBitsInFewerBytes) {
  const Outcome without = train(GetParam(), std::nullopt);
  std::int64_t before = without.planned;
  for (const double share : {0.75, 0.5, 0.35}) {
    const Outcome with = train(GetParam(), share);
    SCOPED_TRACE(concat(share, ": ", with.planned, " bytes of ", without.planned, ": ", with.recompute));
    EXPECT_EQ(with.losses, without.losses);
    ASSERT_EQ(with.weights.size(), without.weights.size());
    for (std::size_t i = 0; i < with.weights.size(); ++i) {
      const auto a = with.weights[i].tensor.bytes(), b = without.weights[i].tensor.bytes();
      EXPECT_TRUE(a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0) << with.weights[i].name;
    }
    EXPECT_EQ(with.allocated, with.planned);
    EXPECT_LT(with.planned, before);
    before = with.planned;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RecomputeModels, testing::Values("models/resnet50.onnx", "models/xception.onnx"),
                         [](const auto& info) { return std::filesystem::path(info.param).stem().string(); });

}  // namespace
}  // namespace tandem
