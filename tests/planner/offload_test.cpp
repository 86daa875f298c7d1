// Plans in which another device keeps activations between the passes: fewer bytes where they are made, as planned, and the same bits.
#include <gtest/gtest.h>

#include "planner/offload_programs.h"
#include "planner/plan/plan_file.h"
#include "planner/recompute/recompute.h"
#include "tests/planner/broken_plan.h"
#include "tests/planner/placed_plans.h"

namespace tandem {
namespace {

using namespace small_models;

// Twelve layers whose activations are 128 KiB each at a batch of 256, with random masks.
Graph layers(std::int64_t n) {
  constexpr std::int64_t width = 128;
  Builder b;
  b.graph.name = "layers";
  ValueId x = b.graph.add_input("x", {DType::float32, {n, width}});
  for (int i = 0; i < 12; ++i) {
    x = b.node("Gemm", {x, b.weight(concat("w", i), {width, width}, 0.1F), b.weight(concat("b", i), {width}, 0.1F)});
    x = b.node("Tanh", {x});
    if (i % 4 == 3) x = b.node("Dropout", {x}, {{"ratio", 0.3F}});
  }
  b.graph.outputs = {b.node("Gemm", {x, b.weight("w", {width, 5}, 0.1F)})};
  return b.graph;
}

// The CPU as a device that copies while it computes.
class Beside final : public AskedCpu {
 public:
  bool stages_inputs() const override { return true; }
};

// These devices' activations are kept by as many more.
CompileOptions kept_by_more(CompileOptions o) {
  const auto senders = static_cast<int>(o.devices.size());
  for (int d = 0; d < senders; ++d) o.memory.activations_on.push_back(senders + d);
  for (int d = 0; d < senders; ++d) {
    o.devices.push_back({{"cpu", senders + d}, 0});
    o.memory.activations_on.push_back(-1);
  }
  return o;
}
CompileOptions options(std::size_t devices = 1) {
  return options_for(256, std::vector<double>(devices, 1));
}

std::int64_t planned(const Plan& plan, std::size_t device = 0) {
  return plan.program_of(device).peak_bytes();
}
int moves(const Plan& plan, std::size_t device = 0) {
  int count = 0;
  for (const Step& s : plan.program_of(device).steps)
    if (const auto* e = s.as<ExchangeStep>()) count += moves_activations(plan.exchanges[e->exchange]);
  return count;
}
bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

struct Row {
  const char* name;
  std::size_t devices = 1;
  bool beside = false;
  std::int64_t stages = 1, micro_batches = 1;
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}
class OffloadedActivations : public testing::TestWithParam<Row> {};

// In micro-batches what goes is in no slot of the device, but in those of who keeps it.
TEST_P(OffloadedActivations, SameBitsInFewerBytes) {
  const Row& row = GetParam();
  const Beside beside;
  const Backend& backend = row.beside ? static_cast<const Backend&>(beside) : cpu_backend();
  CompileOptions o = options(row.devices);
  o.batch *= row.micro_batches;
  o.parallel.pipeline = row.stages;
  o.parallel.micro_batches = row.micro_batches;
  const Trained without = train_on(backend, layers, o, 2, 0.05), with = train_on(backend, layers, kept_by_more(o), 2, 0.05);
  expect_same_training(with, without);
  for (std::size_t d = 0; d < 2 * row.devices; ++d) EXPECT_EQ(with.allocated[d], planned(with.plan, d)) << d;
  const std::int64_t least = row.devices == 1 ? 640 << 10 : row.stages == 1 ? 256 << 10 : 1;
  for (std::size_t d = 0; d < row.devices; ++d) {
    const bool last = row.stages > 1 && d + 1 == row.devices;  // of a pipeline: what it makes is read soon
    EXPECT_LT(planned(with.plan, d), planned(without.plan, d) - (last ? -1 : least)) << with.plan.offload;
    EXPECT_GE(moves(with.plan, d), last ? 0 : 2 * 4) << with.plan.offload;
    EXPECT_EQ(moves(with.plan, row.devices + d), moves(with.plan, d));
  }
  EXPECT_TRUE(with.plan.recompute.empty());
}

INSTANTIATE_TEST_SUITE_P(Devices, OffloadedActivations,
                         testing::Values(Row{"one"}, Row{"two", 2}, Row{"beside", 1, true}, Row{"two_beside", 2, true},
                                         Row{"micro_batches", 1, false, 1, 4}, Row{"micro_batches_beside", 1, true, 1, 4},
                                         Row{"stages", 2, false, 2, 4}, Row{"stages_beside", 2, true, 2, 4}),
                         [](const auto& info) { return std::string(info.param.name); });

// Which are kept by the device on which the weights live.
TEST(OffloadedActivationsOf, TheDeviceOfTheWeights) {
  CompileOptions o = options();
  o.devices.push_back({{"cpu", 1}, 0});
  o.parallel.weights_on = 1;
  const Trained without = train(layers, o, 2, 0.05);
  o.memory.activations_on = {1, -1};
  const Trained with = train(layers, o, 2, 0.05);
  expect_same_training(with, without);
  EXPECT_LT(planned(with.plan), planned(without.plan)) << with.plan.offload;
  for (std::size_t d = 0; d < 2; ++d) EXPECT_EQ(with.allocated[d], planned(with.plan, d)) << d;
  EXPECT_GT(moves(with.plan, 1), 0);
}

// Whichever takes less time: a link that is fast enough costs nothing, computing again does.
TEST(OffloadedActivationsWithin, ABudget) {
  const Beside beside;
  CompileOptions o = options();
  const Backend* const backends[] = {&beside};
  const Plan without = compile(layers, o, backends);
  o.memory.budget = MemoryBudget{.share = 0.6};
  const Plan again = compile(layers, o, backends), either = compile(layers, kept_by_more(o), backends);
  EXPECT_LT(planned(either), planned(without));
  EXPECT_LE(planned(either), planned(again) * 21 / 20) << either.offload;
  EXPECT_LT(either.seconds, again.seconds) << either.offload << "; " << either.recompute;
  EXPECT_GT(moves(either), 0);
  EXPECT_LT(moves(either), 2 * 12) << "no more than has to";
  expect_same_training(train_on(beside, layers, kept_by_more(o), 2, 0.05), train_on(beside, layers, options(), 2, 0.05));
  o.memory.budget = MemoryBudget{.bytes = {1000}};
  try {
    compile(layers, kept_by_more(o), backends);
    ADD_FAILURE() << "taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::device);
    EXPECT_TRUE(has(e.what(), "option memory_budget asks for a plan of 1000 B, the smallest that was found takes ")) << e.what();
  }
}

// Without a budget whatever is computed again by name is not sent.
TEST(OffloadedActivationsWithin, WhatIsComputedAgain) {
  CompileOptions o = kept_by_more(options());
  o.memory.recompute = {"Tanh*"};
  const Trained with = train(layers, o, 2, 0.05);
  expect_same_training(with, train(layers, options(), 2, 0.05));
  EXPECT_FALSE(with.plan.recompute.empty());
  EXPECT_GT(moves(with.plan), 0);
}

TEST(OffloadPlan, SaysWhatMoves) {
  const Backend* const backends[] = {&cpu_backend()};
  const Plan plan = compile(layers, kept_by_more(options()), backends);
  EXPECT_TRUE(has(plan.offload, " activations are kept by cpu:1, ")) << plan.offload;
  EXPECT_TRUE(has(plan.offload, " are added to it")) << plan.offload;
  EXPECT_TRUE(has(text_of_plan(plan, false), "  offload         ")) << text_of_plan(plan, false);
  EXPECT_EQ(parse_plan(serialize(plan)).offload, plan.offload);
  std::int64_t listed = 0, moved = 0;
  for (const PlanTransfer& t : plan.transfers) listed += t.bytes;
  for (const Exchange& e : plan.exchanges) moved += e.elements * static_cast<std::int64_t>(size_of(e.dtype));
  EXPECT_EQ(listed, moved);
  EXPECT_GT(listed, 0);
}

// The first step that reads what the first fetch brings.
StepId first_reader(const DeviceProgram& program, StepId fetch) {
  for (StepId s{fetch.index + 1}; s.index < std::ssize(program.steps); ++s.index)
    for (const BufferId in : program.steps[s].inputs)
      if (in.present() && root_of(program.buffers, in) == root_of(program.buffers, program.steps[fetch].outputs[0])) return s;
  return {};
}
StepId first_fetch(const Plan& plan) {
  const auto& steps = plan.program_of(0).steps;
  for (StepId s{0}; s.index < std::ssize(steps); ++s.index)
    if (const auto* e = steps[s].as<ExchangeStep>(); e && !steps[s].outputs.empty() && moves_activations(plan.exchanges[e->exchange]))
      return s;
  return {};
}

TEST(OffloadPlan, IsRefusedWhereItReadsTooEarly) {
  const Backend* const backends[] = {&cpu_backend()};
  test::expect_breach(
      compile(layers, kept_by_more(options()), backends),
      [](Plan& plan) {
        DeviceProgram& program = plan.program_of(0);
        const StepId fetch = first_fetch(plan), reader = first_reader(program, fetch);
        std::swap(program.steps[fetch], program.steps[reader]);
      },
      " (back)'");
  const Beside beside;
  const Backend* const besides[] = {&beside};
  test::expect_breach(
      compile(layers, kept_by_more(options()), besides),
      [](Plan& plan) {
        DeviceProgram& program = plan.program_of(0);
        program.steps[first_reader(program, first_fetch(plan))].waits.clear();
      },
      " without waiting for ");
}

struct Wrong {
  const char* name;
  std::vector<int> on;
  const char* message;
};
class OffloadRefusals : public testing::TestWithParam<Wrong> {};
TEST_P(OffloadRefusals, SayWhy) {
  CompileOptions o = options(2);
  o.devices.push_back({{"cpu", 2}, 0});
  o.memory.activations_on = GetParam().on;
  expect_refused(layers, o, GetParam().message);
}
INSTANTIATE_TEST_SUITE_P(
    Rows, OffloadRefusals,
    testing::Values(Wrong{"too_few", {2}, "option offload activations: 1 keepers for 3 devices, expected one for each"},
                    Wrong{"none_such", {3, -1, -1}, "device 0 sends to device 3, expected another of 3"},
                    Wrong{"itself", {0, -1, -1}, "device 0 sends to device 0, expected another of 3"},
                    Wrong{"twice", {2, 2, -1}, "device 1 sends to device 2, which keeps those of another already"},
                    Wrong{"busy", {1, -1, -1}, "device 0 sends to device 1, which has samples of its own"}),
    [](const auto& info) { return std::string(info.param.name); });

// A GPU of so much memory.
class Gpu final : public AskedCpu {
 public:
  explicit Gpu(std::int64_t memory) : memory_(memory) { called = "gpu"; }
  bool stages_inputs() const override { return true; }
  DeviceModel model(int index, int devices_in_use) const override {
    DeviceModel m = AskedCpu::model(index, devices_in_use);
    m.memory = memory_;
    return m;
  }

 private:
  const std::int64_t memory_;
};

TEST(OffloadHelp, IsToldWhereABatchIsTooLarge) {
  CompileOptions o = options();
  o.devices = {{{"gpu", 0}}};
  const Gpu large(0);
  const Backend* const without_limit[] = {&large, &cpu_backend()};
  const std::int64_t all = planned(compile(layers, o, without_limit));
  const Gpu small(all * 9 / 10);
  const Backend* const backends[] = {&small, &cpu_backend()};
  try {
    compile(layers, o, backends);
    ADD_FAILURE() << "taken";
  } catch (const Error& e) {
    const std::string text = e.what(),
                      way = "; with option offload activations and option memory_budget fit activations are in host memory";
    const std::size_t from = text.find(way);
    ASSERT_NE(from, std::string::npos) << text;
    EXPECT_TRUE(has(text.substr(from), " MiB for a batch of 256 (")) << text;
    EXPECT_TRUE(has(text.substr(from), " kept by cpu:0, ")) << text;
  }
}

}  // namespace
}  // namespace tandem
