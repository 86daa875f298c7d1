// Plans whose devices do different things and pass values to each other, and parameters of which each device keeps a part.
#include "kernels/cpu/backend.h"
#include "tests/runtime/allocations.h"
#include "tests/runtime/linear_session.h"

namespace tandem::test {
namespace {

class Relay : public testing::TestWithParam<bool> {};

TEST_P(Relay, GivesTheOtherDeviceWhatTheFirstRead) {
  FakeBackend fake;
  fake.queues = GetParam();  // stream 0 as on a GPU, or in the worker's thread
  const Backend* backends[] = {&fake, &cpu_backend()};
  for (const char* backend : {"fake", "cpu"}) {
    Session session(relay_plan(backend), backends);
    for (int round = 0; round < 20; ++round) {
      std::vector<float> x = numbers(4, 2), y(x.size());
      for (float& v : x) v += static_cast<float>(round);
      const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(x.data())};
      std::byte* outputs[] = {reinterpret_cast<std::byte*>(y.data())};
      session.run(0, inputs, outputs, {});
      EXPECT_EQ(y, x) << backend << ", round " << round;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Stream0, Relay, testing::Values(false, true), [](const auto& info) { return info.param ? "queued" : "inline"; });

// y = x·w by column, w [4] in parts of 1 and 3 on two devices: each computes its columns, and a gather gives the whole to both.
// Device 0 gives y, device 1 its negative, times v, which it alone keeps. Then each adds 1 to its part of w. m [2,3] is cut
// between its columns, and lies transposed on device 1; nothing reads it.
Plan parted_plan() {
  Plan plan;
  plan.model = "parted";
  plan.batch = 2;
  const TensorType type{DType::float32, {2, 4}};
  plan.inputs = {{"x", type, true}};
  plan.outputs = {{"y", type, Combine::rows}, {"z", type, Combine::rows}};
  plan.exchanges = {{.kind = ExchangeKind::all_gather, .name = "y", .devices = {0, 1}, .elements = 8}};
  const auto vector = [](std::int64_t n) { return Operand{DType::float32, {n}, Layout("a")}; };
  plan.cuts = {{{0, 1}}};
  plan.parameters = {{.name = "w",
                      .type = {DType::float32, {4}},
                      .parts = {{{0}, vector(1), 0, {{0, 0, 1, 1}}}, {{1}, vector(3), 0, {{0, 0, 1, 3}}}},
                      .trainable = true},
                     {.name = "v", .type = {DType::float32, {4}}, .parts = {{{1}, vector(4), 64}}},
                     {.name = "m",
                      .type = {DType::float32, {2, 3}},
                      .parts = {{{0}, {DType::float32, {2, 1}, Layout("ab")}, 64, {{1, 0, 1, 1}}},
                                {{1}, {DType::float32, {2, 2}, Layout("ba")}, 128, {{1, 0, 1, 2}}}}}};
  for (int i = 0; i < 2; ++i) {
    const std::int64_t columns = i == 0 ? 1 : 3;
    DeviceBuilder d(i, 0, 2);
    const BufferId x = d.floats("x", {2, 4}), w = d.buffer("w", vector(columns), ArenaKind::parameters);
    const BufferId v = i == 1 ? d.buffer("v", vector(4), ArenaKind::parameters) : BufferId{};
    d.buffer("m", plan.parameters[2].parts[static_cast<std::size_t>(i)].operand, ArenaKind::parameters);
    // Columns are outermost in memory, so that those of one device lie behind those of the other.
    const BufferId part = d.buffer("y part", {DType::float32, {2, columns}, Layout("ba")}),
                   whole = d.buffer("y", {DType::float32, {2, 4}, Layout("ba")});
    const BufferId out = d.floats("out", {2, 4}), grown = d.alias("w'", w, vector(columns));
    d.slice(0, x);
    const StepId computed = d.launch("Columns", {x, w}, {part}, {{"begin", std::int64_t{i}}});
    const StepId gathered = d.exchange(0, {part}, {whole}, {computed});
    i == 0 ? d.launch("Rows", {whole}, {out}) : d.launch("NegativeRows", {whole, v}, {out});
    d.last().waits = {gathered};
    d.concat(i, out);
    d.launch("Grow", {w}, {grown});
    add_device(plan, d.done());
  }
  return plan;
}

void add_functions(FakeBackend& fake) {
  fake.functions["Columns"] = [](const Call& c) {
    const auto begin = static_cast<std::size_t>(c.attributes.integer("begin"));
    for (std::size_t k = 0; k < c.in<float>(1).size(); ++k)
      for (std::size_t r = 0; r < 2; ++r) c.out<float>(0)[2 * k + r] = c.in<float>(0)[4 * r + begin + k] * c.in<float>(1)[k];
  };
  fake.functions["Rows"] = [](const Call& c) {
    for (std::size_t r = 0; r < 2; ++r)
      for (std::size_t k = 0; k < 4; ++k) c.out<float>(0)[4 * r + k] = c.in<float>(0)[2 * k + r];
  };
  fake.functions["NegativeRows"] = [](const Call& c) {
    for (std::size_t r = 0; r < 2; ++r)
      for (std::size_t k = 0; k < 4; ++k) c.out<float>(0)[4 * r + k] = -c.in<float>(0)[2 * k + r] * c.in<float>(1)[k];
  };
  fake.functions["Grow"] = [](const Call& c) {
    for (std::size_t k = 0; k < c.in<float>(0).size(); ++k) c.out<float>(0)[k] = c.in<float>(0)[k] + 1;
  };
}

TEST(PartedSession, PutsValuesAndParametersTogether) {
  FakeBackend fake;
  add_functions(fake);
  const Backend* backends[] = {&fake};
  Session session(parted_plan(), backends);
  session.set_parameters(std::vector<NamedTensor>{{"w", Tensor::of<float>({4}, {1, 2, 3, 4})},
                                                  {"v", Tensor::of<float>({4}, {1, 10, 100, 1000})},
                                                  {"m", Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6})}});
  std::vector<float> w{1, 2, 3, 4};
  for (int round = 0; round < 20; ++round) {
    const std::vector<float> x = numbers(2, 4);
    std::vector<float> y(8), z(8), want_y(8), want_z(8);
    for (std::size_t i = 0; i < 8; ++i) {
      want_y[i] = x[i] * w[i % 4];
      want_z[i] = -want_y[i] * std::vector<float>{1, 10, 100, 1000}[i % 4];
    }
    const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(x.data())};
    std::byte* outputs[] = {reinterpret_cast<std::byte*>(y.data()), reinterpret_cast<std::byte*>(z.data())};
    session.run(0, inputs, outputs, {});
    EXPECT_EQ(y, want_y);
    EXPECT_EQ(z, want_z);
    for (float& v : w) v += 1;
  }
  for (int d = 0; d < 2; ++d) {
    const std::vector<NamedTensor> all = session.parameters(d);  // from all devices that have parts, whichever is asked
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(floats(all[0].tensor), w);
    EXPECT_EQ(floats(all[1].tensor), (std::vector<float>{1, 10, 100, 1000}));
    EXPECT_EQ(floats(all[2].tensor), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  }
  const auto* kept = reinterpret_cast<const float*>(fake.memory[1][0].data() + 128);  // m's columns 1 and 2, one behind the other
  EXPECT_EQ(std::vector<float>(kept, kept + 4), (std::vector<float>{2, 5, 3, 6}));
  EXPECT_TRUE(fake.guards_whole());
  const auto sums = session.parameter_checksums();
  EXPECT_EQ(sums[0][1], 0U) << "device 0 has nothing of v";
  EXPECT_NE(sums[1][1], 0U);
}

TEST(PartedSession, StepsAllocateNothing) {
  FakeBackend fake;
  add_functions(fake);
  const Backend* backends[] = {&fake};
  Session session(parted_plan(), backends);
  const std::vector<float> x = numbers(2, 4);
  std::vector<float> y(8), z(8);
  const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(x.data())};
  std::byte* outputs[] = {reinterpret_cast<std::byte*>(y.data()), reinterpret_cast<std::byte*>(z.data())};
  int before = -1;
  for (int s = 0; s < 20; ++s) {
    session.run(0, inputs, outputs, {});
    if (s == 1) before = allocations();
  }
  EXPECT_EQ(allocations(), before);
}

// The other learns why the one that it waits for does not come.
TEST(PartedSession, AFailureOfOneDeviceIsNamed) {
  FakeBackend fake;
  add_functions(fake);
  fake.functions["Columns"] = [](const Call& c) {
    if (c.attributes.integer("begin") == 1) throw std::runtime_error("no columns today");
  };
  const Backend* backends[] = {&fake};
  Session session(parted_plan(), backends);
  const std::vector<float> x = numbers(2, 4);
  const std::byte* inputs[] = {reinterpret_cast<const std::byte*>(x.data())};
  std::byte* outputs[] = {nullptr, nullptr};
  EXPECT_TRUE(contains(failure([&] { session.run(0, inputs, outputs, {}); }),
                       "fake:1: step 1 (Columns, fake.Columns, from 'Columns_node'): no columns today"));
}

}  // namespace
}  // namespace tandem::test
