// Whole CUDA plans, run on the host: order, waits, reuse of memory and capture, and the sums over logical devices. The
// losses must be those of the CPU backend's plan, whatever lies in the memory that a step may not read before it writes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/cpu/backend.h"
#include "planner/plan/format.h"
#include "tests/cuda/host_backend.h"
#include "tests/cuda/small_network.h"

namespace tandem::cuda {
namespace {

struct Case {
  const char* name;
  SmallTraining training;
  bool captures, module;
  bool captures_sums = false;  // as NCCL's with a process for each GPU
};
const Case cases[] = {
    {"one_device", {"sgd", 1}, false, false},
    {"one_device_captured", {"sgd", 1}, true, false},
    {"one_device_adam", {"adam", 1}, false, false},
    {"three_logical_devices", {"sgd", 3}, false, false},
    {"as_the_module_describes_it", {"sgd", 1}, false, true},
    {"as_the_module_describes_it_on_two", {"rmsprop", 2}, true, true},
    {"captured_on_two_with_sums", {"sgd", 2}, true, false, true},
    {"weight_gradients_beside", {"adam", 1, "", {}, true}, false, false},
    {"weight_gradients_beside_captured", {"sgd", 1, "", {}, true}, true, false},
    {"dropouts", {"adam", 1, "residual"}, true, false},
    {"dropouts_on_three", {"adam", 3, "residual"}, false, false},
    {"lstm", {"sgd", 1, "LSTM"}, true, false},
    {"lstm_on_two", {"sgd", 2, "LSTM"}, false, false},
    {"lstm_as_the_module_describes_it", {"sgd", 1, "LSTM"}, true, true},
    {"gru", {"sgd", 1, "GRU"}, true, false},
    {"linear_gru", {"sgd", 1, "linear GRU"}, true, false},
    {"rnn", {"sgd", 1, "RNN"}, true, false},
    {"tensor", {"sgd", 2, "layers", {.data = 1, .tensor = 2}}, false, false},
    {"tensor_captured", {"adam", 2, "layers", {.data = 1, .tensor = 2}}, true, false, true},
    {"data_by_tensor", {"adam", 4, "layers", {.data = 2, .tensor = 2}}, false, false},
    {"zero_1", {"adam", 3, "layers", {.data = 3, .zero = 1}}, false, false},
    {"zero_3_of_images", {"adam", 2, "", {.data = 2, .zero = 3}}, true, false, true},
    {"zero_2_of_an_lstm", {"sgd", 2, "LSTM", {.data = 2, .zero = 2}}, false, false},
    {"groups_of_replicas", {"adam", 4, "layers", {.data = 2, .places = {{"Gemm1", {0, 1}}, {"Gemm*", {2, 3}}}}}, true, false, true},
    {"data_by_tensor_zero_as_the_module_describes_it", {"adam", 4, "layers", {.data = 2, .tensor = 2, .zero = 1}}, false, true},
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// Recurrent layers have a launch of their own, not one for each of their steps.
void expect_kernels(const Session& session, const SmallTraining& training) {
  int forward = 0, backward = 0;
  for (const Step& step : session.plan().program_of(0).steps)
    if (const auto* launch = step.as<LaunchStep>()) {
      forward += launch->kernel == "native.recurrent";
      backward += launch->kernel == "native.recurrent_backward";
    }
  EXPECT_EQ(forward, training.cell.empty() ? 0 : 2);
  EXPECT_EQ(backward, training.cell.empty() ? 0 : 2);
}

// NaNs in what lives within a step only. Arenas were allocated device by device, those of no bytes left out.
void poison(HostCudaBackend& backend, const Session& session) {
  for (const Arena& arena : session.plan().program_of(0).arenas)
    for (test::GuardedMemory& m : backend.devices.memory[0])
      if (arena.kind == ArenaKind::scratch && static_cast<std::int64_t>(m.size()) == arena.bytes) m.poison();
}

class PlansOnHost : public testing::TestWithParam<Case> {};

TEST_P(PlansOnHost, TrainAsTheCpuDoes) {
  const Case& c = GetParam();
  std::string reason;
  if (c.module && !cuda_module(reason)) GTEST_SKIP() << reason;
  HostCudaBackend backend(c.module);
  backend.devices.captures = c.captures;
  backend.devices.captures_sums = c.captures_sums;
  const std::vector<float> wanted = train_small_network(cpu_backend(), c.training);
  const std::vector<float> got = train_small_network(backend, c.training, [&](const Session& session) {
    if (c.training.cell != "layers" && c.training.cell != "residual") expect_kernels(session, c.training);
    poison(backend, session);
  });
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-4 * std::fabs(wanted[i])) << "step " << i + 1;
  EXPECT_LT(got[2], got[0]) << "two batches take turns";
  EXPECT_TRUE(backend.devices.guards_whole());
  // The first step runs, the others replay it; sums that wait on the host keep a step from being recorded.
  const bool replays = c.captures && (c.training.devices == 1 || c.captures_sums);
  EXPECT_EQ(backend.devices.replays, replays ? c.training.devices * (std::ssize(got) - 1) : 0);
  EXPECT_EQ(backend.devices.summed_steps, c.captures_sums ? c.training.devices * std::ssize(got) : 0);
}
INSTANTIATE_TEST_SUITE_P(Networks, PlansOnHost, testing::ValuesIn(cases), [](const auto& info) { return info.param.name; });

// Both of the network's, forward and backward: rows' kernels drop as they read and write what kernels of their own would, to the bit.
TEST(PlansOnHost, DropoutsJoinTheRowsThatAreNormalized) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    std::vector<std::vector<float>> losses;
    for (const bool joined : {false, true}) {
      HostCudaBackend backend(false);
      SmallTraining training{"sgd", 1, "residual"};
      training.precision = precision;
      if (!joined) training.without_passes = {"fuse_dropouts"};
      losses.push_back(train_small_network(backend, training, [&](const Session& session) {
        int apart = 0, within = 0;
        for (const Step& step : session.plan().program_of(0).steps)
          if (const auto* launch = step.as<LaunchStep>()) {
            apart += launch->op == "DropoutTraining";
            within += launch->op.starts_with("RowNormalization") && launch->attributes.has("ratio");
          }
        EXPECT_EQ(apart, joined ? 0 : 4) << to_string(precision);
        EXPECT_EQ(within, joined ? 4 : 0) << to_string(precision);
      }));
    }
    EXPECT_EQ(losses[0], losses[1]) << to_string(precision);
  }
}

// They run on a stream of their own, behind what they read, and nothing waits for one before the next is under way but updates.
TEST(PlansOnHost, GradientsOfWeightsRunBesideTheBackwardPass) {
  std::vector<std::vector<float>> losses;
  for (const bool beside : {false, true}) {
    HostCudaBackend backend(false);
    losses.push_back(train_small_network(backend, {"adam", 1, "", {}, beside}, [&](const Session& session) {
      const auto& steps = session.plan().program_of(0).steps;
      std::vector<StepId> gradients;
      for (StepId s{0}; s.index < std::ssize(steps); ++s.index) {
        const auto* launch = steps[s].as<LaunchStep>();
        const bool is_gradient = launch && launch->op.ends_with("BackwardWeights");
        EXPECT_EQ(steps[s].stream == weights_stream, beside && is_gradient) << s.index;
        if (is_gradient) gradients.push_back(s);
        const auto& waits = steps[s].waits;
        if (!beside || gradients.empty() || std::ranges::find(waits, gradients.back()) == waits.end()) continue;
        EXPECT_TRUE(launch && launch->op.ends_with("Update")) << "step " << s.index << " waits for the newest";
      }
      EXPECT_GT(gradients.size(), 4U);
    }));
  }
  EXPECT_EQ(losses[0], losses[1]) << "to the bit";
}

// Every wait between the two streams is needed: a plan in which one is left out is refused, as a race over memory.
TEST(PlansOnHost, AMissingWaitBesideTheBackwardPassIsRefused) {
  HostCudaBackend backend(false);
  bool seen = false;
  train_small_network(backend, {"adam", 1, "", {}, true}, [&](const Session& session) {
    if (std::exchange(seen, true)) return;
    const Plan& sound = session.plan();
    const auto& steps = sound.program_of(0).steps;
    const auto breach = [](const Plan& plan) -> std::string {
      try {
        verify(plan);
      } catch (const Error& e) {
        return e.what();
      }
      return "none";
    };
    EXPECT_EQ(breach(sound), "none");
    Plan no_memory_waits = sound;  // of steps that read no gradient, but may take the memory of what one reads
    int left_out = 0;
    for (StepId s{0}; s.index < std::ssize(steps); ++s.index) {
      const auto* launch = steps[s].as<LaunchStep>();
      const bool is_gradient = steps[s].stream == weights_stream, updates = launch && launch->op.ends_with("Update");
      if (steps[s].waits.empty()) continue;
      if (!is_gradient && !updates) {
        no_memory_waits.program_of(0).steps[s].waits.clear();
        continue;
      }
      Plan racing = sound;
      racing.program_of(0).steps[s].waits.clear();
      const std::string what = breach(racing);
      EXPECT_NE(what.find("without waiting for"), std::string::npos) << "step " << s.index << ": " << what;
      ++left_out;
    }
    EXPECT_GT(left_out, 5);
    EXPECT_NE(breach(no_memory_waits).find("which uses that memory"), std::string::npos);
  });
}

// The same on a GPU, where there is one: by itself, as logical devices, and captured (its devices capture).
class PlansOnGpu : public testing::TestWithParam<SmallTraining> {};

TEST_P(PlansOnGpu, TrainAsTheCpuDoes) {
  std::string reason;
  const Backend* const backend = cuda_module(reason);
  if (!backend) GTEST_SKIP() << reason;
  if (!backend->unusable().empty()) GTEST_SKIP() << backend->unusable();
  const std::vector<float> wanted = train_small_network(cpu_backend(), GetParam()), got = train_small_network(*backend, GetParam());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-4 * std::fabs(wanted[i])) << "step " << i + 1;
  EXPECT_EQ(train_small_network(*backend, GetParam()), got) << "the same plan gives the same bits";
}
INSTANTIATE_TEST_SUITE_P(Networks, PlansOnGpu,
                         testing::Values(SmallTraining{"sgd", 1}, SmallTraining{"adam", 1}, SmallTraining{"sgd", 4},
                                         SmallTraining{"rmsprop", 2}, SmallTraining{"sgd", 1, "LSTM"}, SmallTraining{"sgd", 2, "GRU"},
                                         SmallTraining{"sgd", 1, "linear GRU"}),
                         [](const auto& info) {
                           return concat(info.param.optimizer, "_on_", info.param.devices,
                                         info.param.cell == "linear GRU" ? "_linear_gru"
                                         : info.param.cell.empty()       ? ""
                                                                         : concat("_", info.param.cell));
                         });

}  // namespace
}  // namespace tandem::cuda
