// From programs of devices, which may differ, to a plan.
#include "planner/memory/assemble.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

// A program written by hand. All values are vectors of floats.
struct Program {
  LoweredGraph graph;
  BufferId value(const std::string& name, std::int64_t n, ArenaKind arena = ArenaKind::scratch) {
    Buffer b{.name = name, .operand = {DType::float32, {n}, Layout("a")}, .arena = arena};
    b.bytes = (b.operand.bytes() + 63) / 64 * 64;
    return graph.buffers.add(std::move(b));
  }
  BufferId input(const std::string& name, std::int64_t n) {
    graph.inputs.push_back({name, value(name, n)});
    return graph.inputs.back().buffer;
  }
  BufferId parameter(const std::string& name, std::int64_t n, std::int64_t whole, int axis = -1, std::vector<std::int64_t> begins = {}) {
    const BufferId b = value(name, n, ArenaKind::parameters);
    graph.parameters.push_back({.name = name, .buffer = b, .type = {DType::float32, {whole}}});
    if (axis >= 0) graph.parameters.back().ranges.push_back({{axis, 0, n}, std::move(begins)});
    return b;
  }
  void launch(const std::string& op, std::vector<BufferId> inputs, std::vector<BufferId> outputs) {
    graph.steps.push_back({.what = LaunchStep{op, "kernel", {}}, .inputs = std::move(inputs), .outputs = std::move(outputs)});
  }
  void exchange(Exchange e, std::vector<BufferId> inputs, std::vector<BufferId> outputs) {
    graph.steps.push_back(
        {.what = ExchangeStep{graph.exchanges.add(std::move(e))}, .inputs = std::move(inputs), .outputs = std::move(outputs), .stream = 1});
  }
};

Exchange send(const std::string& name, std::vector<int> devices, std::int64_t n) {
  return {.kind = ExchangeKind::send, .name = name, .devices = std::move(devices), .elements = n};
}

struct Assembled {
  Plan plan;
  Assembled(std::vector<Replica> replicas, const std::vector<std::string>& outputs, std::vector<std::int64_t> rows) {
    plan.batch = 8;
    for (std::size_t d = 0; d < replicas.size(); ++d)
      replicas[d].spec.id = {"cpu", static_cast<int>(d)}, replicas[d].model.link_bandwidth = 1e9;
    std::vector<HostOutput> given;
    for (const std::string& name : outputs) given.push_back({.name = name});
    assemble(plan, replicas, given, rows, CompileOptions{}, nullptr);
  }
  const Step& step(std::size_t device, int index) const { return plan.program_of(device).steps[StepId{index}]; }
  const Buffer& buffer(std::size_t device, const std::string& name) const {
    for (const Buffer& b : plan.program_of(device).buffers)
      if (b.name == name) return b;
    fail("no buffer '", name, "'");
  }
};

// Two stages: device 0 computes a of x and sends it, device 1 receives it and computes y of that and t. Each has a parameter.
struct Stages {
  Program first, second;
  Stages() {
    const BufferId x = first.input("x", 8), w = first.parameter("w", 16, 16), a = first.value("a", 8), more = first.value("more", 8),
                   most = first.value("most", 8);
    first.launch("A", {x, w}, {a});
    first.exchange(send("a over", {0, 1}, 8), {a}, {});
    first.launch("More", {x}, {more});  // beside the send
    first.launch("Most", {more}, {most});
    first.graph.outputs = {most};

    const BufferId t = second.input("t", 8), v = second.parameter("v", 32, 32), u = second.value("u", 8), b = second.value("b", 8),
                   y = second.value("y", 8), loss = second.value("loss", 1);
    second.launch("Before", {t}, {u});
    second.exchange(send("a over", {0, 1}, 8), {}, {b});
    second.launch("Between", {u}, {second.value("dead", 8)});
    second.launch("B", {b, v}, {y});
    second.launch("Loss", {y}, {loss});
    second.graph.outputs = {loss, y};
  }
  Assembled assembled() const {
    return {{{.slice_size = 8, .program = &first.graph, .outputs = {1}}, {.slice_size = 8, .program = &second.graph, .outputs = {0, 2}}},
            {"loss", "most", "y"},
            {0, 1, 1}};
  }
};

TEST(Assemble, ProgramsMayDiffer) {
  const Stages stages;
  const Assembled got = stages.assembled();
  const Plan& p = got.plan;
  EXPECT_NO_THROW(verify(p));
  ASSERT_EQ(p.exchanges.size(), 1U) << "the same in both programs, by name";
  EXPECT_EQ(p.exchanges[0].devices, (std::vector<int>{0, 1}));
  EXPECT_GT(p.exchanges[0].seconds, 0);
  ASSERT_EQ(p.inputs.size(), 2U);
  EXPECT_EQ(p.inputs[1].name, "t");
  EXPECT_TRUE(p.inputs[1].batched);
  ASSERT_EQ(p.outputs.size(), 3U);
  EXPECT_EQ(p.outputs[0].parts, 1) << "one device gives the loss";
  EXPECT_EQ(p.outputs[2].type, (TensorType{DType::float32, {8}}));
  ASSERT_EQ(p.parameters.size(), 2U);
  for (int d = 0; d < 2; ++d) {
    const PlanParameter& own = p.parameters[static_cast<std::size_t>(d)];
    ASSERT_EQ(own.parts.size(), 1U) << own.name;
    EXPECT_EQ(own.parts[0].program, ProgramId{d});
    EXPECT_EQ(own.parts[0].offset, 0) << "each device's parameters begin where its arena does";
    EXPECT_EQ(p.program_of(static_cast<std::size_t>(d)).arenas[0].bytes, own.parts[0].operand.bytes());
  }
}

// Steps of device 0: 0 slice, 1 A, 2 send, 3 More, 4 Most, 5 concat; of 1: 0 slice, 1 Before, 2 receive, 3 Between, 4 B, 5 Loss, 6 and 7
// concats.
TEST(Assemble, StreamsWaitForWhatTheyShare) {
  const Stages stages;
  const Assembled got = stages.assembled();
  EXPECT_EQ(got.step(0, 2).waits, (std::vector<StepId>{{1}})) << "what is sent is there";
  EXPECT_EQ(got.step(1, 2).waits, (std::vector<StepId>{{1}})) << "what had the memory before is done";
  EXPECT_TRUE(got.step(1, 3).waits.empty()) << "runs beside the receive";
  EXPECT_EQ(got.step(1, 4).waits, (std::vector<StepId>{{2}})) << "what it reads is there";
  EXPECT_TRUE(got.step(1, 5).waits.empty()) << "waited for once";
}

// What a step beside the compute stream uses is its own until the compute stream has waited for it.
TEST(Assemble, MemoryIsKeptWhileAnExchangeMayRun) {
  const Stages stages;
  const Assembled got = stages.assembled();
  EXPECT_EQ(got.buffer(0, "a").last, StepId{5}) << "nothing waits for the send";
  EXPECT_EQ(got.buffer(1, "b").first, StepId{2});
  EXPECT_EQ(got.buffer(1, "b").last, StepId{4});
}

TEST(Assemble, NothingWritesWhatIsStillSent) {
  Program first, second;
  const BufferId x = first.input("x", 8), a = first.value("a", 8), b = first.value("b", 8);
  first.launch("A", {x}, {a});
  first.exchange(send("a over", {0, 1}, 8), {a}, {});
  first.launch("Again", {x}, {a});  // in the same memory
  first.launch("B", {a}, {b});
  first.graph.outputs = {b};
  second.exchange(send("a over", {0, 1}, 8), {}, {second.value("a", 8)});
  const Assembled got({{.slice_size = 8, .program = &first.graph}, {.slice_size = 8, .program = &second.graph}}, {"b"}, {1});
  EXPECT_EQ(got.step(0, 3).waits, (std::vector<StepId>{{2}}));
  EXPECT_NO_THROW(verify(got.plan));
}

// Who has waited for one exchange of a value has not waited for a later one of it.
TEST(Assemble, EveryExchangeOfAValueIsWaitedFor) {
  Program programs[2];
  for (int d = 0; d < 2; ++d) {
    Program& p = programs[d];
    const BufferId x = p.input("x", 8), a = p.value("a", 8), all = p.value("all", 16), b = p.value("b", 8), u = p.value("u", 8),
                   y = p.value("y", 8);
    p.launch("A", {x}, {a});
    p.exchange({.kind = ExchangeKind::all_gather, .name = "all", .elements = 16}, {a}, {all});
    d == 0 ? p.exchange(send("a over", {0, 1}, 8), {a}, {}) : p.exchange(send("a over", {0, 1}, 8), {}, {b});
    p.launch("Use", {all}, {u});
    p.launch("Again", {u}, {a});
    p.launch("Y", {a}, {y});
    p.graph.outputs = {y};
  }
  const Assembled got({{.slice_size = 8, .program = &programs[0].graph}, {.slice_size = 8, .program = &programs[1].graph, .outputs = {1}}},
                      {"y", "z"}, {1, 1});
  EXPECT_EQ(got.step(0, 4).waits, (std::vector<StepId>{{2}}));
  EXPECT_EQ(got.step(0, 5).waits, (std::vector<StepId>{{3}}));
  EXPECT_NO_THROW(verify(got.plan));
}

TEST(Assemble, AnInputIsSentOnceItIsThere) {
  Program first, second;
  const BufferId x = first.input("x", 8), t = first.input("t", 8), y = first.value("y", 8), b = second.value("b", 8);
  first.exchange(send("x over", {0, 1}, 8), {x}, {});
  first.launch("Y", {x, t}, {y});
  first.graph.outputs = {y};
  second.exchange(send("x over", {0, 1}, 8), {}, {b});
  second.graph.outputs = {b};
  const Assembled got(
      {{.slice_size = 8, .program = &first.graph, .outputs = {0}}, {.slice_size = 8, .program = &second.graph, .outputs = {1}}}, {"y", "b"},
      {1, 1});
  EXPECT_EQ(got.step(0, 2).waits, (std::vector<StepId>{{0}}));
  EXPECT_NO_THROW(verify(got.plan));
}

TEST(Assemble, PartsOfAParameterAndOfASum) {
  Program programs[3];
  const std::vector<std::int64_t> begins{0, 5, 5};
  for (int d = 0; d < 3; ++d) {
    Program& p = programs[d];
    const BufferId x = p.input("x", 8), b = p.parameter("b", 3, 3), w = p.parameter("w", d == 0 ? 5 : 2, 7, 0, begins),
                   s = p.value("s", 4, ArenaKind::gradients);
    p.launch("Part", {x, b, w}, {s});
    p.exchange({.name = "s", .elements = 4}, {}, {s});  // of all devices, where it names none
    const BufferId y = p.value("y", 4);
    p.launch("After", {s}, {y});
    p.graph.outputs = {y};
  }
  const Assembled got({{.slice_size = 8, .program = &programs[0].graph},
                       {.slice_size = 8, .program = &programs[1].graph},
                       {.slice_size = 8, .program = &programs[2].graph}},
                      {"y"}, {0});
  EXPECT_NO_THROW(verify(got.plan));
  EXPECT_EQ(got.plan.exchanges[0].devices, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(got.plan.outputs[0].parts, 3);
  const std::vector<ParameterPart> w = got.plan.parts_of(got.plan.parameters[1]);
  ASSERT_EQ(w.size(), 3U);
  for (const ParameterPart& part : w) {
    EXPECT_EQ(part.ranges, (std::vector<AxisRange>{{0, begins[at(part.device)], part.device == 0 ? 5 : 2}}));
    EXPECT_EQ(part.offset, 64) << "behind b";
  }
  EXPECT_FALSE(w[0].alike(w[1]));
  EXPECT_TRUE(w[1].alike(w[2]));
}

// What differs between them is where their slices and parts begin.
TEST(Assemble, DevicesThatAreAlikeShareAProgram) {
  Program p;
  const BufferId x = p.input("x", 2), w = p.parameter("w", 2, 8, 0, {0, 2, 4, 6}), y = p.value("y", 2);
  p.launch("Y", {x, w}, {y});
  p.graph.outputs = {y};
  std::vector<Replica> replicas;
  for (int d = 0; d < 4; ++d) replicas.push_back({.slice_begin = 2 * d, .slice_size = 2, .program = &p.graph});
  const Assembled got(replicas, {"y"}, {1});
  EXPECT_NO_THROW(verify(got.plan));
  EXPECT_EQ(got.plan.programs.size(), 1U);
  EXPECT_EQ(got.plan.cuts, (std::vector<AxisCut>{{{0, 1, 2, 3}}}));
  for (int d = 0; d < 4; ++d) {
    EXPECT_EQ(got.plan.part_of(got.plan.parameters[0], d)->ranges, (std::vector<AxisRange>{{0, 2 * d, 2}}));
    EXPECT_EQ(got.plan.first_row(d, {0}), 2 * d);
  }
  replicas[3].model.threads = 2;
  EXPECT_EQ(Assembled(replicas, {"y"}, {1}).plan.programs.size(), 2U) << "one is of another kind";
}

// Another batch may have samples for it, and another plan would then have to find its parameters there.
TEST(Assemble, ADeviceWithoutSamplesKeepsTheParametersToo) {
  Program busy, none;
  const BufferId x = busy.input("x", 8), w = busy.parameter("w", 4, 4), y = busy.value("y", 8);
  busy.launch("Y", {x, w}, {y});
  busy.graph.outputs = {y};
  const Assembled got({{.slice_size = 8, .program = &busy.graph}, {.slice_begin = 8, .program = &none.graph}}, {"y"}, {1});
  EXPECT_NO_THROW(verify(got.plan));
  ASSERT_EQ(got.plan.parameters[0].parts.size(), 2U);
  EXPECT_EQ(got.plan.program_of(1).arenas[0].bytes, 64);
}

// A value for the host, or from there, does not go over the link between devices.
TEST(SecondsToSend, AreThoseOfTheLinkToTheHost) {
  DeviceModel gpu, host;
  gpu.links = {.levels = {{.name = "between devices", .bandwidth = 1e9}}, .host_bandwidth = 10e9};
  host.link_bandwidth = host.links.host_bandwidth = 20e9;
  constexpr std::int64_t bytes = 1'000'000'000;
  EXPECT_NEAR(seconds_to_send(bytes, gpu, host, false), 0.1, 1e-3);
  EXPECT_NEAR(seconds_to_send(bytes, host, gpu, false), 0.1, 1e-3);
  EXPECT_NEAR(seconds_to_send(bytes, gpu, gpu, true), 1, 1e-3);
}

}  // namespace
}  // namespace tandem
