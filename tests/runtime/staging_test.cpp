// Batches that are copied to the device ahead of their step: that this happens while the step before computes, and that
// no step reads another's batch. Streams are queues here, as on a GPU.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/runtime/allocations.h"
#include "tests/runtime/linear_session.h"

namespace tandem::test {
namespace {

class Staged : public testing::TestWithParam<bool> {
 protected:
  Staged() {
    fake.queues = true;
    fake.captures = GetParam();
    fake.functions["Scale"] = [this, scale = fake.functions["Scale"]](const Call& c) {
      if (in_scale) in_scale();
      scale(c);
    };
  }
  // A linear plan without updates' effect (learning rate 0): y = x·{1, 2, 3}.
  static Plan plan(std::int64_t rows) { return linear_plan({rows}, 3, true); }
  Session session() {
    Session s(plan(2), backends);
    s.set_parameters(std::vector{weights({1, 2, 3})});
    return s;
  }
  static std::vector<float> batch(int number, std::int64_t rows = 2) {
    std::vector<float> x = numbers(rows, 3);
    for (float& v : x) v += static_cast<float>(100 * number);
    return x;
  }
  // Runs a step on x and expects its y. `next`: what is announced, of plan `next_plan`.
  static void expect_step(Session& s, std::size_t index, const std::vector<float>& x, bool announced,
                          const std::vector<float>* next = nullptr, std::size_t next_plan = 0) {
    float loss = 0;
    std::vector<float> y(x.size(), -1), want;
    for (std::size_t i = 0; i < x.size(); ++i) want.push_back(x[i] * static_cast<float>(i % 3 + 1));
    const std::byte* inputs[] = {bytes(x), nullptr, nullptr};
    const std::byte* ahead[] = {next ? bytes(*next) : nullptr, nullptr, nullptr};
    std::byte* outputs[] = {reinterpret_cast<std::byte*>(&loss), reinterpret_cast<std::byte*>(y.data())};
    Ahead what{.announced = announced, .plan = next_plan, .inputs = {}};
    if (next) what.inputs = ahead;
    const int before = allocations();
    s.run(index, inputs, outputs, {}, what);
    allocated = allocations() - before;
    EXPECT_EQ(y, want);
  }
  static const std::byte* bytes(const std::vector<float>& x) { return reinterpret_cast<const std::byte*>(x.data()); }
  static void delay() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

  FakeBackend fake;
  const Backend* backends[1] = {&fake};
  std::function<void()> in_scale;  // called where a step computes
  static inline int allocated = 0;  // by the last step
};

// A step that goes on only once the next batch is under way.
TEST_P(Staged, TheNextBatchComesWhileTheStepComputes) {
  Session s = session();
  std::mutex lock;
  std::condition_variable changed;
  int begun = 0, steps = 0;
  bool starved = false;
  fake.transfers = [&](Transfer t) {
    const std::scoped_lock hold(lock);
    if (t == Transfer::in) ++begun;
    changed.notify_all();
  };
  constexpr int copies = 3;  // of a step: x, scalars, random
  in_scale = [&] {
    std::unique_lock hold(lock);
    ++steps;
    if (steps < 4 && !changed.wait_for(hold, std::chrono::seconds(20), [&] { return begun > copies * steps; })) starved = true;
  };
  std::vector<std::vector<float>> x;
  for (int n = 0; n < 4; ++n) x.push_back(batch(n));
  for (std::size_t n = 0; n < x.size(); ++n) expect_step(s, 0, x[n], n > 0, n + 1 < x.size() ? &x[n + 1] : nullptr);
  EXPECT_FALSE(starved) << "a step waited in vain for the next batch";
  EXPECT_EQ(begun, copies * 4) << "each batch is copied once";
  EXPECT_EQ(fake.replays, GetParam() ? 3 : 0);
}

// Steps that are begun while the ones before compute: each has its own numbers, batch and outputs, in whatever plan.
TEST_P(Staged, StepsAreBegunAhead) {
  Session s = session();
  s.add(plan(1));
  std::vector<std::span<float>> x;  // the session's memory: to copy from any other waits for the step before
  std::vector<std::vector<float>> y, want;
  constexpr std::size_t steps = 8, first_ahead = 2;  // behind the first step of each plan
  const auto plan_of = [](std::size_t n) { return n == 1 || n == 4 ? std::size_t{1} : std::size_t{0}; };
  std::vector<float> w{1, 2, 3};
  for (std::size_t n = 0; n < steps; ++n) {
    const std::vector<float> values = batch(static_cast<int>(n), plan_of(n) == 1 ? 1 : 2);
    x.emplace_back(reinterpret_cast<float*>(s.host_memory(n, std::ssize(values) * 4)), values.size());
    std::ranges::copy(values, x[n].begin());
    y.emplace_back(x[n].size(), -1);
    want.emplace_back();
    for (std::size_t i = 0; i < x[n].size(); ++i) want[n].push_back(x[n][i] * w[i % 3]);
    for (std::size_t i = 0; i < x[n].size(); ++i) w[i % 3] -= static_cast<float>(n) * x[n][i];  // learning rate n
  }
  std::atomic<std::size_t> begun = 0;
  std::atomic<bool> starved = false;
  std::size_t computed = 0;
  in_scale = [&] {  // of a step that goes on only once the next one is begun
    const std::size_t n = computed++;
    if (n < first_ahead || n + 1 == steps) return;
    for (int waits = 0; begun < n + 2; ++waits) {
      if (waits == 2000) return void(starved = true);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  const std::byte* inputs[steps][3] = {};
  std::byte* outputs[steps][2] = {};
  for (std::size_t n = 0; n < steps; ++n) {
    inputs[n][0] = reinterpret_cast<const std::byte*>(x[n].data());
    outputs[n][1] = reinterpret_cast<std::byte*>(y[n].data());
  }
  const auto begin = [&](std::size_t n) {
    Ahead ahead{.announced = n > 0, .plan = 0, .inputs = {}};
    if (n + 1 < steps) ahead = {.announced = n > 0, .plan = plan_of(n + 1), .inputs = inputs[n + 1]};
    s.begin(plan_of(n), inputs[n], outputs[n], {.learning_rate = static_cast<double>(n)}, ahead);
    ++begun;
  };
  for (std::size_t n = 0; n < steps; ++n) {
    if (begun == n) begin(n);
    if (n + 1 < steps && n >= first_ahead) {
      begin(n + 1);
      EXPECT_TRUE(contains(failure([&] { s.parameters(); }), "a step is under way"));
      EXPECT_TRUE(contains(failure([&] { begin(n + 2); }), "a step is under way"));
    }
    s.finish();
    EXPECT_EQ(y[n], want[n]) << n;
    std::ranges::fill(x[n], -1.0F);  // read no more
  }
  EXPECT_FALSE(starved) << "a step waited in vain for the next one";
  EXPECT_EQ(floats(s.parameters()[0].tensor), w);
  EXPECT_EQ(fake.replays, GetParam() ? 6 : 0);
  EXPECT_TRUE(contains(failure([&] { s.finish(); }), "no step is under way"));
  EXPECT_TRUE(fake.guards_whole());
}

TEST_P(Staged, ASessionEndsBehindTheStepsUnderWay) {
  std::atomic<int> ended = 0;
  {
    Session s = session();
    in_scale = [&] {
      delay();
      ++ended;
    };
    const std::vector<float> x = batch(1);
    std::vector<float> y(x.size());
    const std::byte* inputs[] = {bytes(x), nullptr, nullptr};
    std::byte* outputs[] = {nullptr, reinterpret_cast<std::byte*>(y.data())};
    s.run(0, inputs, outputs, {});
    for (int n = 0; n < 2; ++n) s.begin(0, inputs, outputs, {});
  }
  EXPECT_EQ(ended, 3);
}

// The batch comes late: the step must wait for it.
TEST_P(Staged, AStepWaitsForItsBatch) {
  fake.transfers = [](Transfer t) {
    if (t == Transfer::in) delay();
  };
  Session s = session();
  for (int n = 0; n < 3; ++n) expect_step(s, 0, batch(n), false);
}

// The step takes its batch late: the next one must not come over it.
TEST_P(Staged, ABatchWaitsUntilTheOneBeforeIsTaken) {
  fake.transfers = [](Transfer t) {
    if (t == Transfer::on_device) delay();
  };
  Session s = session();
  std::vector<std::vector<float>> x{batch(1), batch(2), batch(3), batch(4)};
  for (std::size_t n = 0; n < x.size(); ++n) expect_step(s, 0, x[n], n > 0, n + 1 < x.size() ? &x[n + 1] : nullptr);
}

TEST_P(Staged, OnlyTheAnnouncedBatchIsTaken) {
  Session s = session();
  s.add(plan(1));
  std::vector<float> a = batch(1), b = batch(2), one = batch(3, 1);
  expect_step(s, 0, a, false, &b);
  std::ranges::copy(batch(5), b.begin());
  expect_step(s, 0, b, false, &a);  // the place of the batch ahead with other values
  expect_step(s, 0, b, true, &a);   // not what was announced
  expect_step(s, 1, one, false);    // another plan in between, over the same memory
  expect_step(s, 0, a, true, &one, 1);
  expect_step(s, 1, one, true, &a, 0);
  expect_step(s, 0, a, true, &b);
  expect_step(s, 0, b, true, &a);
  const std::byte* inputs[] = {bytes(b), nullptr, nullptr};
  std::byte* outputs[] = {nullptr, nullptr};
  s.run_timed(0, inputs, outputs, {});  // takes the place of what was announced
  expect_step(s, 0, a, true);
  EXPECT_TRUE(fake.guards_whole());
}

TEST_P(Staged, OnlyInputsAre) {
  Plan odd = plan(2);
  odd.program_of(0).steps[6].workspace = {8};  // a concat's
  Session s(odd, backends);
  s.set_parameters(std::vector{weights({1, 2, 3})});
  for (int n = 0; n < 3; ++n) expect_step(s, 0, batch(n), false);
}

TEST_P(Staged, AnnouncingAllocatesNothing) {
  Session s = session();
  const std::vector<float> a = batch(1), b = batch(2);
  expect_step(s, 0, a, false, &b);
  expect_step(s, 0, b, true, &a);
  expect_step(s, 0, a, true, &b);
  EXPECT_EQ(allocated, 0);
}

TEST_P(Staged, EndsWhereABatchDoesNotCome) {
  Session s = session();
  std::atomic<bool> fails = false;
  fake.transfers = [&](Transfer t) {
    if (fails && t == Transfer::in) fail(ExitCode::device, "the bus is gone");
  };
  const std::vector<float> a = batch(1);
  expect_step(s, 0, a, false);
  fails = true;
  EXPECT_TRUE(contains(failure([&] { expect_step(s, 0, a, false); }), "fake:0: step 0 (slice): the bus is gone"));
}

INSTANTIATE_TEST_SUITE_P(Steps, Staged, testing::Bool(), [](const auto& info) { return info.param ? "captured" : "launched"; });

}  // namespace
}  // namespace tandem::test
