// One plan run by several ranks (threads of this process, each with its World and Session) and by one process.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <thread>

#include "kernels/cpu/backend.h"
#include "planner/compile.h"
#include "planner/plan/plan_file.h"
#include "runtime/session.h"
#include "tests/ranks/address.h"
#include "tests/runtime/allocations.h"
#include "tests/runtime/plan_builder.h"
#include "tests/runtime/small_model.h"

namespace tandem {
namespace {

const Backend* const backends[] = {&cpu_backend()};
constexpr double long_time = 60;

struct Row {
  const char* name;
  std::vector<double> weights;  // of each device
  int ranks;
  std::int64_t batch;
  bool synchronize = false;
  Route sums = Route::measured;
};

Plan plan_of(const Row& row, PlanMode mode = PlanMode::training, const Plan* parameters_of = nullptr) {
  CompileOptions o{.mode = mode, .batch = row.batch, .optimizer = optimizer_defaults("adam"), .synchronize_batch_norm = row.synchronize};
  for (std::size_t d = 0; d < row.weights.size(); ++d) o.devices.push_back({{"cpu", static_cast<int>(d)}, row.weights[d]});
  o.memory.bucket_bytes = 2048;  // several
  o.memory.first_bucket_bytes = 512;
  return compile(test::small_model, o, backends, parameters_of);
}

// Made once: the memory that is free, which a plan states, differs from moment to moment.
struct Plans {
  // Inference keeps other layouts than training that synchronises its statistics.
  explicit Plans(const Row& row) : training(plan_of(row)) {
    if (!row.synchronize) inference = plan_of(row, PlanMode::inference, &training);
  }
  Plan training;
  std::optional<Plan> inference;
};

// Inputs and room for the outputs of a plan.
struct Host {
  explicit Host(const Plan& plan) {
    for (const HostInput& h : plan.inputs) {
      Tensor& t = tensors.emplace_back(h.type);
      if (h.name == "labels") for (std::int64_t i = 0; std::int64_t& v : t.write<std::int64_t>()) v = i++ % 5;
      if (h.name == "x") for (int i = 0; float& v : t.write<float>()) v = std::cos(static_cast<float>(++i));
    }
    for (const Tensor& t : tensors) inputs.push_back(t.bytes().data());
    for (const HostOutput& h : plan.outputs)
      room.emplace_back(static_cast<std::size_t>(h.bytes()));
    for (auto& r : room) outputs.push_back(r.data());
  }
  std::vector<Tensor> tensors;
  std::vector<const std::byte*> inputs;
  std::vector<std::vector<std::byte>> room;
  std::vector<std::byte*> outputs;
};

// All that a run of five steps and a prediction leaves: each step's outputs, the prediction, parameters by device.
struct Result {
  std::vector<std::vector<std::vector<std::byte>>> outputs;
  std::vector<std::vector<std::byte>> parameters;
  bool operator==(const Result&) const = default;
};

Result run(const Plans& plans, World* world) {
  constexpr int steps = 5;
  Session session(plans.training, backends, world);
  Host training(plans.training);
  Result result;
  for (int step = 1; step <= steps; ++step) {
    session.run(0, training.inputs, training.outputs, {.learning_rate = 0.01, .step = step, .seed = 7});
    result.outputs.push_back(training.room);
  }
  if (plans.inference) {
    const std::size_t second = session.add(*plans.inference);
    Host predicting(*plans.inference);
    session.run(second, predicting.inputs, predicting.outputs, {});
    result.outputs.push_back(predicting.room);
  }
  for (int d = 0; d < session.devices(); ++d) {
    std::vector<std::byte>& all = result.parameters.emplace_back();
    for (const auto& values : {session.parameters(d), session.optimizer_state(d)})
      for (const NamedTensor& v : values) all.insert(all.end(), v.tensor.bytes().begin(), v.tensor.bytes().end());
  }
  return result;
}

template <class Body>
std::vector<std::string> on_ranks(int ranks, Body&& body, Route sums = Route::measured) {
  const test::RankAddress address;
  std::vector<std::string> failures(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        World world({.rank = r, .ranks = ranks, .address = address.text(), .timeout_seconds = long_time, .sums = sums});
        body(world);
        world.leave();
      } catch (const Error& e) {
        failures[static_cast<std::size_t>(r)] = e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  return failures;
}

std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }

class RankSession : public testing::TestWithParam<Row> {};

TEST_P(RankSession, LeavesWhatOneProcessLeaves) {
  const Row& row = GetParam();
  const Plans plans(row);
  const Result want = run(plans, nullptr);
  ASSERT_NE(want.outputs[0], want.outputs[1]) << "it learns";
  std::vector<Result> got(static_cast<std::size_t>(row.ranks));
  const auto failures = on_ranks(
      row.ranks, [&](World& world) { got[static_cast<std::size_t>(world.rank())] = run(plans, &world); }, row.sums);
  EXPECT_EQ(failures, std::vector<std::string>(static_cast<std::size_t>(row.ranks)));
  Result all;  // the ranks' devices are those of the one process, in order
  for (const Result& r : got) {
    EXPECT_EQ(r.outputs, want.outputs) << "every rank has the outputs of all devices";
    all.parameters.insert(all.parameters.end(), r.parameters.begin(), r.parameters.end());
  }
  EXPECT_EQ(all.parameters, want.parameters) << "bit for bit";
}
INSTANTIATE_TEST_SUITE_P(Rows, RankSession,
                         testing::Values(Row{"two", {1, 1}, 2, 8}, Row{"four_uneven", {3, 1, 2, 1}, 4, 13}, Row{"two_of_two", {1, 1, 1, 1}, 2, 9},
                                         Row{"one_without_samples", {1, 0, 2}, 3, 7}, Row{"fewer_samples_than_ranks", {1, 1, 1, 1}, 4, 3},
                                         Row{"synchronised", {2, 1}, 2, 6, true}, Row{"four_uneven_along_chain", {3, 1, 2, 1}, 4, 13, false, Route::chain},
                                         Row{"two_by_pairs", {1, 2}, 2, 9, false, Route::pairs}, Row{"three_of_two", {1, 2, 1, 1, 0, 1}, 3, 13}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(RankSession, RefusesPlansThatDiffer) {
  const Plan plans[] = {plan_of({"", {1, 1}, 2, 8}), plan_of({"", {3, 1}, 2, 8})};
  const auto failures = on_ranks(2, [&](World& world) { Session session(plans[world.rank()], backends, &world); });
  for (const std::string& f : failures) EXPECT_TRUE(f.starts_with("rank 1 has plan ")) << f;
}

TEST(RankSession, GivesTheOtherRankWhatTheFirstRead) {
  std::atomic<int> allocated = -1;
  const auto failures = on_ranks(2, [&](World& world) {
    Session session(test::relay_plan("cpu"), backends, &world);
    std::vector<float> x(8), y(8);
    const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(x.data())};
    std::byte* outputs[] = {reinterpret_cast<std::byte*>(y.data())};
    const auto rounds = [&](int from, int to) {
      for (int round = from; round < to; ++round) {
        std::fill(x.begin(), x.end(), world.rank() == 0 ? static_cast<float>(round) : -1.0F);
        session.run(0, inputs, outputs, {});
        if (std::any_of(y.begin(), y.end(), [&](float v) { return v != static_cast<float>(round); }))
          ADD_FAILURE() << "rank " << world.rank() << ", round " << round;
      }
      world.any(false);
    };
    rounds(0, 3);
    const int before = test::allocations();
    world.any(false);  // both ranks have counted before either goes on
    rounds(3, 10);
    if (world.rank() == 0) allocated = test::allocations() - before;
    world.any(false);
  });
  EXPECT_EQ(failures, std::vector<std::string>(2));
  EXPECT_EQ(allocated, 0);
}

class RankSteps : public testing::TestWithParam<Route> {};

TEST_P(RankSteps, AllocateNothing) {
  const Plan plan = plan_of({"", {1, 1, 1}, 3, 8});
  std::atomic<int> allocated = -1;
  const auto failures = on_ranks(3, [&](World& world) {
    Session session(plan, backends, &world);
    Host host(plan);
    const auto steps = [&](int from, int to) {
      for (int step = from; step <= to; ++step) session.run(0, host.inputs, host.outputs, {.learning_rate = 0.01, .step = step});
      world.any(false);
    };
    steps(1, 2);
    const int before = test::allocations();
    world.any(false);  // all ranks have counted before any goes on
    steps(3, 6);
    if (world.rank() == 0) allocated = test::allocations() - before;
    world.any(false);
  }, GetParam());
  EXPECT_EQ(failures, std::vector<std::string>(3));
  EXPECT_EQ(allocated, 0);
}
INSTANTIATE_TEST_SUITE_P(Routes, RankSteps, testing::Values(Route::chain, Route::pairs),
                         [](const auto& info) { return info.param == Route::chain ? "chain" : "pairs"; });

TEST_P(RankSteps, LeaveOutOutputsThatNobodyWants) {
  const Plan plan = plan_of({"", {1, 1, 1}, 3, 8});
  ASSERT_GE(plan.outputs.size(), 2U);
  const auto failures = on_ranks(3, [&](World& world) {
    Host all(plan), some(plan);
    Session session(plan, backends, &world);
    session.run(0, all.inputs, all.outputs, {.step = 1});
    some.outputs[0] = nullptr;
    session.run(0, some.inputs, some.outputs, {.step = 1});  // at a learning rate of 0
    for (std::size_t o = 1; o < some.room.size(); ++o) EXPECT_EQ(some.room[o], all.room[o]) << "rank " << world.rank();
  }, GetParam());
  EXPECT_EQ(failures, std::vector<std::string>(3));
}

TEST(RankSession, OneRanksFailureEndsAll) {
  const Plan plan = plan_of({"", {1, 1, 1}, 3, 6});
  const auto failures = on_ranks(3, [&](World& world) {
    Session session(plan, backends, &world);
    Host host(plan);
    session.run(0, host.inputs, host.outputs, {.step = 1});
    if (world.rank() == 1) fail(ExitCode::data, "no more samples");
    for (int step = 2; step < 100; ++step) session.run(0, host.inputs, host.outputs, {.step = step});
  });
  EXPECT_EQ(failures[1], "no more samples");
  for (const int r : {0, 2})
    EXPECT_NE(failures[static_cast<std::size_t>(r)].find("rank 1 has ended"), std::string::npos) << failures[static_cast<std::size_t>(r)];
}

}  // namespace
}  // namespace tandem
