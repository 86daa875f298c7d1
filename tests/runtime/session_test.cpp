// What sessions compute, over a fake backend and hand-made plans.
#include <cmath>
#include <cstdlib>
#include <thread>

#include "planner/plan/timeline.h"
#include "ranks/world.h"
#include "tests/ranks/address.h"
#include "tests/runtime/allocations.h"
#include "tests/runtime/linear_session.h"

namespace tandem::test {
namespace {

struct Slices {
  std::string name;
  std::vector<std::int64_t> rows;
  bool staged = false;
};
class LinearSession : public testing::TestWithParam<Slices> {};

// However the batch is cut, a step gives what one device gives.
TEST_P(LinearSession, StepsAsOneDeviceDoes) {
  FakeBackend fake;
  const Backend* backends[] = {&fake};
  Session session(linear_plan(GetParam().rows, 3, GetParam().staged), backends);
  session.set_parameters(std::vector{weights({1, 2, 3})});
  const std::int64_t batch = session.plan().batch;
  const std::vector<float> x = numbers(batch, 3);
  std::vector<float> w{1, 2, 3}, want_y(x.size());
  for (int s = 0; s < 3; ++s) {
    float want_loss = 0;
    for (std::size_t i = 0; i < x.size(); ++i) want_loss += want_y[i] = x[i] * w[i % 3];
    const Results got = step(session, 0, x);
    EXPECT_EQ(got.y, want_y);
    float loss = 0;
    for (const float l : got.loss) loss += l;
    EXPECT_EQ(loss, want_loss);
    for (std::size_t i = 0; i < x.size(); ++i) w[i % 3] -= 0.5f * x[i];
    for (int d = 0; d < session.devices(); ++d) {
      std::vector<GuardedMemory>& memory = fake.memory[static_cast<std::size_t>(d)];  // but for parameters, which come first,
      for (std::size_t m = 1; m < memory.size(); ++m) memory[m].poison();           // nothing is kept from step to step
      const std::vector<NamedTensor> parameters = session.parameters(d);
      ASSERT_EQ(parameters.size(), 1u);
      EXPECT_EQ(parameters[0].name, "w");
      EXPECT_EQ(floats(parameters[0].tensor), w) << "device " << d;
    }
  }
  EXPECT_TRUE(fake.guards_whole());
}

TEST_P(LinearSession, TakesThePlansBytesExactly) {
  FakeBackend fake;
  const Backend* backends[] = {&fake};
  Session session(linear_plan(GetParam().rows, 3, GetParam().staged), backends);
  for (int d = 0; d < session.devices(); ++d) {
    std::int64_t taken = 0;
    for (const GuardedMemory& m : fake.memory[static_cast<std::size_t>(d)]) taken += static_cast<std::int64_t>(m.size());
    EXPECT_EQ(session.allocated_bytes(d), session.plan().program_of(static_cast<std::size_t>(d)).peak_bytes());
    EXPECT_EQ(taken, session.allocated_bytes(d));
  }
}

TEST_P(LinearSession, StepsAllocateNothing) {
  FakeBackend fake;
  const Backend* backends[] = {&fake};
  Session session(linear_plan(GetParam().rows, 3, GetParam().staged), backends);
  const std::vector<float> x = numbers(session.plan().batch, 3);
  std::vector<float> loss(static_cast<std::size_t>(session.devices())), y(x.size());
  const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(x.data()), nullptr, nullptr};
  std::byte* outputs[] = {reinterpret_cast<std::byte*>(loss.data()), reinterpret_cast<std::byte*>(y.data())};
  int before = -1;
  for (int s = 0; s < 20; ++s) {
    session.run(0, inputs, outputs, {.learning_rate = 0.1, .step = s + 1});
    if (s == 1) before = allocations();
  }
  EXPECT_EQ(allocations(), before);
  EXPECT_GT(before, 0) << "they are counted";
}

INSTANTIATE_TEST_SUITE_P(Slices, LinearSession,
                         testing::Values(Slices{"one_device", {4}}, Slices{"two_equal", {2, 2}}, Slices{"uneven", {3, 1}},
                                         Slices{"one_has_none", {4, 0}}, Slices{"the_first_has_none", {0, 2, 1}},
                                         Slices{"four_uneven", {3, 1, 2, 2}}, Slices{"staged", {4}, true}, Slices{"staged_on_three", {2, 0, 1}, true}),
                         [](const auto& info) { return info.param.name; });

TEST(Session, GivesEachDeviceItsStepState) {
  Plan plan;
  plan.model = "states";
  plan.batch = 5;
  plan.inputs = {{"tandem.random", {DType::int64, {4}}, false, ValueRole::step_state, std::string(step_random)},
                 {"tandem.scalars", {DType::float32, {16}}, false, ValueRole::step_state, std::string(step_scalars)}};
  plan.outputs = {{"random", {DType::int64, {4}}, Combine::sum, 2}, {"scalars", {DType::float32, {16}}, Combine::sum, 2}};
  for (int i = 0; i < 2; ++i) {
    DeviceBuilder d(i, i * 3, i == 0 ? 3 : 2);
    const BufferId random = d.buffer("random", {DType::int64, {4}, Layout("a")}), scalars = d.floats("scalars", {16});
    d.slice(0, random);
    d.slice(1, scalars);
    d.concat(0, random);
    d.concat(1, scalars);
    add_device(plan, d.done());
  }
  FakeBackend fake;
  const Backend* backends[] = {&fake};
  Session session(plan, backends);
  std::int64_t random[2][4];
  float scalars[2][16];
  const std::byte* inputs[] = {nullptr, nullptr};
  std::byte* outputs[] = {reinterpret_cast<std::byte*>(random), reinterpret_cast<std::byte*>(scalars)};
  session.run(0, inputs, outputs, {.learning_rate = 0.25, .step = 2, .beta1 = 0.5, .beta2 = 0.75, .seed = 77});
  for (int d = 0; d < 2; ++d) {
    EXPECT_EQ(random[d][0], 77);
    EXPECT_EQ(random[d][1], 2);
    EXPECT_EQ(random[d][2], d * 3);
    EXPECT_EQ(std::vector<float>(scalars[d], scalars[d] + 16),
              (std::vector<float>{0.25f, 2, 0.75f, 0.4375f, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}));
  }
}

// A plan of one device: stream 1 writes slowly what stream 0 reads after it waited, and the other way round.
TEST(Session, StreamsWaitForEachOther) {
  FakeBackend fake;
  fake.functions["Slow"] = [](const Call& c) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    c.out<float>(0)[0] = c.in<float>(0)[0] + 1;
  };
  fake.functions["Double"] = [](const Call& c) { c.out<float>(0)[0] = 2 * c.in<float>(0)[0]; };
  Plan plan;
  plan.model = "streams";
  plan.batch = 1;
  plan.inputs = {{"x", {DType::float32, {1}}, true}};
  plan.outputs = {{"z", {DType::float32, {1}}, Combine::rows}};
  DeviceBuilder d(0, 0, 1);
  const BufferId x = d.floats("x", {1}), a = d.floats("a", {1}), b = d.floats("b", {1}), c = d.floats("c", {1});
  const StepId in = d.slice(0, x);
  const StepId slow = d.launch("Slow", {x}, {a});
  d.last().stream = 1;
  d.last().waits = {in};
  const StepId doubled = d.launch("Double", {a}, {b});
  d.last().waits = {slow};
  const StepId again = d.launch("Slow", {b}, {c});
  d.last().stream = 1;
  d.last().waits = {doubled};
  d.concat(0, c);
  d.last().waits = {again};
  add_device(plan, d.done());
  const Backend* backends[] = {&fake};
  Session session(plan, backends);
  for (float v = 0; v < 4; ++v) {
    float z = -1;
    const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(&v)};
    std::byte* outputs[] = {reinterpret_cast<std::byte*>(&z)};
    session.run(0, inputs, outputs, {});
    EXPECT_EQ(z, 2 * (v + 1) + 1);
  }
}

TEST(Session, RunsKernelsOfAStreamInOrderAndReadsConstants) {
  FakeBackend fake;
  std::vector<float> seen;
  fake.functions["See"] = [&](const Call& c) { seen.push_back(c.in<float>(0)[static_cast<std::size_t>(c.attributes.integer("at"))]); };
  Plan plan;
  plan.model = "constants";
  plan.batch = 1;
  DeviceBuilder d(0, 0, 1);
  // [2,3] by columns: element 1 in memory is row 1, column 0.
  const BufferId k = d.constant("k", Tensor::of<float>({2, 3}, {0, 1, 2, 3, 4, 5}), Layout("ba"));
  for (const std::int64_t at : {0, 1, 2, 3, 4, 5}) d.launch("See", {k}, {}, {{"at", at}});
  add_device(plan, d.done());
  const Backend* backends[] = {&fake};
  Session session(plan, backends);
  session.run(0, {}, {}, {});
  EXPECT_EQ(seen, (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

// A second plan with constants of its own at the place where the first has other ones.
TEST(Session, PlansShareParametersAndKeepTheirConstants) {
  FakeBackend fake;
  fake.functions["AddConstant"] = [](const Call& c) {
    for (std::size_t i = 0; i < 2; ++i) c.out<float>(0)[i] = c.in<float>(0)[i] + c.in<float>(1)[i];
  };
  const auto plan_with = [&](float constant, std::int64_t extra) {
    Plan plan;
    plan.model = "shared";
    plan.batch = 1;
    plan.outputs = {{"y", {DType::float32, {2}}, Combine::sum}};
    const Operand weight{DType::float32, {2}, Layout("a")};
    plan.parameters = {{.name = "w", .type = {DType::float32, {2}}, .parts = {{.program = {0}, .operand = weight}}}};
    DeviceBuilder d(0, 0, 1);
    const BufferId w = d.buffer("w", weight, ArenaKind::parameters);
    const BufferId k = d.constant("k", Tensor::of<float>({2}, {constant, -constant}), Layout("a"));
    const BufferId y = d.floats("y", {2});
    d.launch("AddConstant", {w, k}, {y});
    d.concat(0, y);
    d.floats("more", {extra});
    add_device(plan, d.done());
    return plan;
  };
  const Backend* backends[] = {&fake};
  Session session(plan_with(10, 64), backends);
  const std::int64_t first = session.allocated_bytes(0);
  EXPECT_EQ(session.add(plan_with(20, 1)), 1u);
  EXPECT_EQ(session.allocated_bytes(0), first + 64) << "its constant alone";
  EXPECT_EQ(session.add(plan_with(30, 1024)), 2u);
  EXPECT_EQ(session.allocated_bytes(0), first + 2 * 64 + 64 + 4096) << "more scratch than there was";
  session.set_parameters(std::vector{weights({1, 2})});
  const auto run = [&](std::size_t plan) {
    std::vector<float> y(2);
    std::byte* outputs[] = {reinterpret_cast<std::byte*>(y.data())};
    session.run(plan, {}, outputs, {});
    return y;
  };
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(run(0), (std::vector<float>{11, -8}));
    EXPECT_EQ(run(1), (std::vector<float>{21, -18}));
    EXPECT_EQ(run(2), (std::vector<float>{31, -28}));
  }
  EXPECT_TRUE(fake.guards_whole());
}

TEST(Session, ParametersKeepTheTemplatesOrder) {
  Plan plan = linear_plan({1});
  const auto add = [&](std::string name, Shape shape, Layout source, Operand operand, ArenaKind arena) {
    Arena& a = plan.program_of(0).arenas[static_cast<std::size_t>(arena)];
    plan.parameters.push_back(
        {std::move(name), {DType::float32, std::move(shape)}, std::move(source), arena, {{.program = {0}, .operand = operand, .offset = a.bytes}}});
    if (arena == ArenaKind::optimizer) plan.parameters.back().role = ValueRole::optimizer_state;
    a.bytes += rounded(operand.bytes());
  };
  add("blocked", {3, 5}, {}, {DType::float32, {3, 5}, Layout("AB4a8b")}, ArenaKind::parameters);
  // A Gemm's weight [2,12], transB = 0, as the filter [12,2,1,1] in channels of blocks.
  add("transposed", {2, 12}, Layout("bacd"), {DType::float32, {12, 2, 1, 1}, Layout("Acdb8a")}, ArenaKind::parameters);
  add("momentum/w", {3}, {}, {DType::float32, {3}, Layout("a")}, ArenaKind::optimizer);
  FakeBackend fake;
  const Backend* backends[] = {&fake};
  Session session(plan, backends);
  EXPECT_EQ(floats(session.optimizer_state()[0].tensor), (std::vector<float>{0, 0, 0}));
  const std::vector<float> n = numbers(2, 12);
  session.set_parameters(std::vector<NamedTensor>{{"blocked", Tensor::of<float>({3, 5}, std::span(n).first(15))},
                                                  {"transposed", Tensor::of<float>({2, 12}, std::span(n))}});
  session.set_parameters(std::vector<NamedTensor>{{"momentum/w", Tensor::of<float>({3}, {7, 8, 9})}}, ValueRole::optimizer_state);
  const std::vector<NamedTensor> got = session.parameters();
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(floats(got[1].tensor), std::vector<float>(n.begin(), n.begin() + 15));
  EXPECT_EQ(got[2].tensor.shape(), (Shape{2, 12}));
  EXPECT_EQ(floats(got[2].tensor), n);
  ASSERT_EQ(session.optimizer_state().size(), 1u);
  EXPECT_EQ(session.optimizer_state()[0].name, "momentum/w");
  EXPECT_EQ(floats(session.optimizer_state()[0].tensor), (std::vector<float>{7, 8, 9}));
  // On the device: filter (o,i) of the blocked layout lies at block o/8, then i, then o%8; it is n[i*12 + o].
  const float* device = reinterpret_cast<const float*>(fake.memory[0][0].data() + plan.parameters[2].parts[0].offset);
  EXPECT_EQ(device[(9 / 8) * 16 + 1 * 8 + 9 % 8], n[1 * 12 + 9]);
  EXPECT_EQ(device[(12 / 8) * 16 + 1 * 8 + 12 % 8], 0) << "padding";
}

TEST(Session, AnotherBatchTrainsTheSameParameters) {
  FakeBackend fake;
  const Backend* backends[] = {&fake};
  Session session(linear_plan({2, 2}), backends);
  const std::int64_t bytes = session.allocated_bytes(0);
  session.add(linear_plan({1, 0}));
  EXPECT_EQ(session.allocated_bytes(0), bytes);
  step(session, 0, std::vector<float>(12, 1.0f));  // w = -0.5·4
  step(session, 1, {1, 2, 3});
  for (int d = 0; d < 2; ++d) EXPECT_EQ(floats(session.parameters(d)[0].tensor), (std::vector<float>{-2.5f, -3, -3.5f}));
}

TEST(Session, ReplaysTheStepOnADeviceThatCaptures) {
  FakeBackend fake;
  fake.captures = true;
  const Backend* backends[] = {&fake};
  Session session(linear_plan({2}), backends);
  session.set_parameters(std::vector{weights({1, 2, 3})});
  std::vector<float> w{1, 2, 3};
  int before = -1;
  for (int s = 0; s < 4; ++s) {
    const std::vector<float> x = numbers(2, 3);
    EXPECT_EQ(step(session, 0, x).y, (std::vector<float>{w[0], 2 * w[1], 3 * w[2], 4 * w[0], 5 * w[1], 6 * w[2]}));
    for (std::size_t i = 0; i < x.size(); ++i) w[i % 3] -= 0.5f * x[i];
  }
  EXPECT_EQ(session.not_captured(0, 0), "");
  EXPECT_EQ(fake.replays, 3) << "the first step is captured after it ran";
  EXPECT_EQ(floats(session.parameters()[0].tensor), w);
  const std::vector<float> x = numbers(2, 3);
  const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(x.data()), nullptr, nullptr};
  std::byte* outputs[] = {nullptr, nullptr};
  before = allocations();
  session.run(0, inputs, outputs, {});
  EXPECT_EQ(allocations(), before);
}

TEST(Session, GivesTheSameHostMemoryAgain) {
  FakeBackend fake;
  const Backend* backends[] = {&fake};
  Session session(linear_plan({2, 1}), backends);
  std::byte* const first = session.host_memory(1, 100);
  std::byte* const second = session.host_memory(0, 50);
  ASSERT_TRUE(first && second);
  EXPECT_NE(first, second);
  EXPECT_EQ(session.host_memory(1, 80), first);
  EXPECT_EQ(session.host_memory(0, 50), second);
  EXPECT_NE(session.host_memory(0, 51), second);
}

TEST(Session, TellsWhyAStepIsNotCaptured) {
  FakeBackend fake;
  fake.captures = true;
  const Backend* backends[] = {&fake};
  Session two(linear_plan({1, 1}), backends);
  step(two, 0, numbers(2, 3));
  EXPECT_EQ(two.not_captured(0, 1), "it sums over devices of this process");
  fake.capture_fails = true;
  Session one(linear_plan({2}), backends);
  for (int s = 0; s < 2; ++s) step(one, 0, numbers(2, 3));
  EXPECT_EQ(one.not_captured(0, 0), "the capture failed");
  EXPECT_TRUE(one.runs_ahead(0));
  EXPECT_EQ(fake.replays, 0);
}

// TANDEM_POISON_SCRATCH: a step finds no numbers where it has not written.
TEST(Session, PoisonsScratchMemory) {
  for (const bool queues : {false, true}) {
    FakeBackend fake;
    fake.queues = fake.captures = queues;
    int poisoned = 0;
    fake.functions["Scale"] = [&, scale = fake.functions["Scale"]](const Call& c) {
      poisoned += std::isnan(c.out<float>(0)[0]);
      scale(c);
    };
    const Backend* backends[] = {&fake};
    setenv("TANDEM_POISON_SCRATCH", "1", 1);
    Session session(linear_plan({2}), backends);
    unsetenv("TANDEM_POISON_SCRATCH");
    for (int s = 0; s < 3; ++s) step(session, 0, numbers(2, 3));
    EXPECT_EQ(poisoned, 3);
    EXPECT_TRUE(fake.guards_whole());
  }
}

// Of two devices that queue their work the one of more rows comes late to a sum.
void make_late(FakeBackend& fake) {
  fake.queues = true;
  fake.functions["Scale"] = [scale = fake.functions["Scale"]](const Call& c) {
    if (c.in<float>(0).size() > 3) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    scale(c);
  };
}

// A driver may load a kernel only once a device is idle: one that waits for another device of this process never is.
TEST(Session, NoKernelIsLoadedWhileASumIsUnderWay) {
  FakeBackend fake;
  make_late(fake);
  const Backend* backends[] = {&fake};
  Session session(linear_plan({2, 1}), backends);
  session.add(linear_plan({1, 2}));
  for (int s = 0; s < 4; ++s) step(session, static_cast<std::size_t>(s % 2), numbers(3, 3));
  EXPECT_EQ(fake.late_loads, 0);
}

// Also where the first step is timed or traced.
TEST(Session, NoKernelIsLoadedWhileASumOfAStepThatIsTimedIsUnderWay) {
  for (const bool traced : {false, true}) {
    FakeBackend fake;
    make_late(fake);
    const Backend* backends[] = {&fake};
    Session session(linear_plan({2, 1}), backends);
    const std::vector<float> x = numbers(3, 3);
    const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(x.data()), nullptr, nullptr};
    std::byte* outputs[] = {nullptr, nullptr};
    if (traced)
      session.run_traced(0, inputs, outputs, {});
    else
      session.run_timed(0, inputs, outputs, {});
    EXPECT_EQ(fake.late_loads, 0) << (traced ? "traced" : "timed");
  }
}

// What ranks record must be the same on all of them: they would wait for each other in vain.
TEST(Session, RanksCaptureAStepOnAllDevicesOrNone) {
  for (const bool fails : {false, true}) {
    FakeBackend fakes[2];
    const RankAddress address;
    std::vector<std::jthread> threads;
    for (int r = 0; r < 2; ++r)
      threads.emplace_back([&, r] {
        FakeBackend& fake = fakes[r];
        fake.captures = fake.captures_sums = true;
        fake.capture_fails = fails && r == 1;
        const Backend* backends[] = {&fake};
        World world({.rank = r, .ranks = 2, .address = address.text(), .timeout_seconds = 20});
        Session session(linear_plan({1, 1}), backends, &world);
        for (int s = 0; s < 3; ++s) step(session, 0, numbers(2, 3));
        EXPECT_EQ(session.not_captured(0, 0), !fails ? "" : r == 1 ? "the capture failed" : "another device could not capture it");
        world.leave();
      });
    threads.clear();
    for (const FakeBackend& fake : fakes) EXPECT_EQ(fake.replays, fails ? 0 : 2);
  }
}

}  // namespace
}  // namespace tandem::test
