// Nodes to steps, and what is done with the steps of one device before memory is placed.
#include <gtest/gtest.h>

#include "planner/lower/lowered_graph.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

using namespace small_models;
using Names = std::vector<std::string>;

// A program written by hand: buffers by name, steps that read and write them.
struct Program {
  LoweredGraph graph;
  BufferId buffer(const std::string& name, ArenaKind arena = ArenaKind::scratch, std::int64_t bytes = 64) {
    Buffer b{.name = name, .arena = arena};
    b.bytes = bytes;
    graph.buffers.push_back(std::move(b));
    return {static_cast<int>(graph.buffers.size()) - 1};
  }
  BufferId view(const std::string& name, BufferId of) {
    const BufferId id = buffer(name, graph.buffers[static_cast<std::size_t>(of.index)].arena);
    graph.buffers[static_cast<std::size_t>(id.index)].alias = of;
    return id;
  }
  void step(const std::string& op, std::vector<BufferId> inputs, std::vector<BufferId> outputs,
            std::vector<std::pair<int, int>> in_place = {}) {
    graph.steps.push_back({.what = LaunchStep{op, {}, {}}, .inputs = std::move(inputs), .outputs = std::move(outputs)});
    graph.in_place.push_back(std::move(in_place));
  }
  Names order() const {
    Names names;
    for (const Step& s : graph.steps) names.emplace_back(s.op());
    return names;
  }
  // Whose memory a buffer has.
  std::string memory(BufferId id) const { return graph.buffers[static_cast<std::size_t>(root_of(graph.buffers, id).index)].name; }
};

TEST(ScheduleUpdates, BehindTheLastStepThatNeedsTheParameter) {
  Program p;
  const BufferId a = p.buffer("a", ArenaKind::parameters), b = p.buffer("b", ArenaKind::parameters), seen = p.view("a seen", a);
  const BufferId da = p.buffer("da"), db = p.buffer("db"), y = p.buffer("y");
  p.step("gradient of b", {y}, {db});
  p.step("gradient of a", {b, y}, {da});  // reads b once more
  p.step("other", {seen}, {y});           // reads a by another name
  p.step("last", {y}, {p.buffer("z")});
  p.step("update a", {a, da}, {p.view("a now", a)});
  p.step("update b", {b, db}, {p.view("b now", b)});
  schedule_updates(p.graph);
  EXPECT_EQ(p.order(), (Names{"gradient of b", "gradient of a", "update b", "other", "update a", "last"}));
}

TEST(ShareInPlace, WhereNothingReadsTheInputLater) {
  Program p;
  const BufferId x = p.buffer("x"), y = p.buffer("y"), z = p.buffer("z"), kept = p.buffer("kept");
  p.step("make", {}, {x});
  p.step("first", {x}, {y}, {{0, 0}});     // x is dead behind it
  p.step("second", {y}, {z}, {{0, 0}});    // y is read again
  p.step("third", {y, z}, {kept}, {{0, 1}});
  p.graph.outputs = {kept};
  share_in_place(p.graph);
  EXPECT_EQ(p.memory(y), "x");
  EXPECT_EQ(p.memory(z), "z");
  EXPECT_EQ(p.memory(kept), "z");
}

struct SharedRow {
  const char* name;
  void (*change)(Program&, BufferId x, BufferId y);
};

// One step from x to y, and what keeps it from writing into x.
TEST(ShareInPlace, NotWhere) {
  const SharedRow rows[] = {
      {"the input is given back", [](Program& p, BufferId x, BufferId) { p.graph.outputs = {x}; }},
      {"the input is a parameter", [](Program& p, BufferId x, BufferId) { p.graph.buffers[static_cast<std::size_t>(x.index)].arena = ArenaKind::parameters; }},
      {"the output is a gradient in its bucket", [](Program& p, BufferId, BufferId y) { p.graph.buffers[static_cast<std::size_t>(y.index)].arena = ArenaKind::gradients; }},
      {"sizes differ", [](Program& p, BufferId, BufferId y) { p.graph.buffers[static_cast<std::size_t>(y.index)].bytes = 128; }},
      {"the step reads the same memory twice", [](Program& p, BufferId x, BufferId) { p.graph.steps[0].inputs.push_back(p.view("x seen", x)); }},
      {"a view of the input is read later", [](Program& p, BufferId x, BufferId) { p.step("later", {p.view("x seen", x)}, {p.buffer("z")}); }},
  };
  for (const SharedRow& row : rows) {
    SCOPED_TRACE(row.name);
    Program p;
    const BufferId x = p.buffer("x"), y = p.buffer("y");
    p.step("only", {x}, {y}, {{0, 0}});
    row.change(p, x, y);
    share_in_place(p.graph);
    EXPECT_EQ(p.memory(y), "y");
  }
}

// A graph lowered for the CPU, by estimates.
struct Lowered {
  LoweredGraph program;
  explicit Lowered(const Graph& graph) {
    const DeviceModel device = cpu_backend().model(0, 1);
    Tuner tuner(cpu_backend(), false, "");
    KernelOptions kernel;
    program = select_kernels(graph, cpu_backend(), {.kernel = kernel, .device = &device}, tuner);
  }
  Names operators() const {
    Names names;
    for (const Step& s : program.steps) names.emplace_back(s.as<ExchangeStep>() ? "all-reduce" : s.op());
    return names;
  }
  const Buffer& of(const std::string& name) const {
    for (const Buffer& b : program.buffers)
      if (b.name == name) return b;
    fail("no buffer '", name, "'");
  }
};

TEST(SelectKernels, ViewsCostNoStep) {
  Graph g;
  GraphBuilder b(g, "n", {});
  const ValueId x = g.add_input("x", {DType::float32, {2, 6}});
  g.outputs = {b.reshape(b.neg(b.reshape(x, Shape{3, 4})), Shape{12})};
  EXPECT_EQ(Lowered(g).operators(), (Names{"Neg"}));
}

TEST(SelectKernels, ConvertsWhereAKernelWantsAnotherLayout) {
  Graph g;
  GraphBuilder b(g, "n", {});
  const ValueId x = g.add_input("x", {DType::float32, {4, 6}});
  g.outputs = {b.transpose(x, {1, 0})};  // given row-major: the transposed view has to be written out
  EXPECT_EQ(Lowered(g).operators(), (Names{"Reorder"}));
}

// A sum of no parameter's gradient lives as long as it is read: between layers of tensor parallel products there is one after the other.
TEST(SelectKernels, SumsOfActivationsAreActivations) {
  Graph g;
  GraphBuilder b(g, "n", {});
  const ValueId sum = b.emit("AllReduce", {b.neg(g.add_input("x", {DType::float32, {20}}))});
  g[sum].name = "sum";
  g.outputs = {b.emit("Abs", {sum})};
  const Lowered lowered(g);
  EXPECT_EQ(lowered.of("sum").arena, ArenaKind::scratch);
  EXPECT_EQ(lowered.of("bucket 0").arena, ArenaKind::scratch);
  EXPECT_EQ(lowered.of("bucket 0").memory, MemoryClass::activations);
}

// Two sums in one node: one operand is written into the bucket, the other, which is read again, is copied there.
TEST(SelectKernels, SumsLieSideBySideInTheirBucket) {
  Graph g;
  GraphBuilder b(g, "n", {});
  const ValueId x = g.add_input("x", {DType::float32, {20}}), y = g.add_input("y", {DType::float32, {5}});
  const ValueId first = b.neg(x), second = b.neg(y);
  g[first].name = "first";
  const std::vector<ValueId> sums = b.emit("AllReduce", {first, second}, {}, 2);
  g[sums[0]].of = "w";
  g[sums[1]].of = "v";
  g.outputs = {b.emit("Abs", {sums[0]}), b.add(second, sums[1])};
  const Lowered lowered(g);
  EXPECT_EQ(lowered.operators(), (Names{"Neg", "Neg", "Reorder", "all-reduce", "Abs", "Add"}));
  ASSERT_EQ(lowered.program.exchanges.size(), 1U);
  EXPECT_EQ(lowered.program.exchanges[0].values, (Names{"w", "v"}));
  EXPECT_EQ(lowered.program.exchanges[0].elements, 32 + 16);  // each begins at a multiple of 64 bytes
  const Buffer& written = lowered.of("first");
  EXPECT_EQ(written.arena, ArenaKind::gradients);
  EXPECT_EQ(written.offset, 0);
  const Step& copy = lowered.program.steps[2];
  EXPECT_EQ(lowered.program.buffers[static_cast<std::size_t>(copy.outputs[0].index)].offset, 128);
  EXPECT_EQ(root_of(lowered.program.buffers, copy.outputs[0]), lowered.program.steps[3].outputs[0]);
}

// The CPU, but its kernels take as long as is said here.
class Said final : public Backend {
 public:
  double narrow_product = 0, wide_product = 0, cast = 0;
  std::string name() const override { return "said"; }
  std::string version() const override { return "1"; }
  std::string unusable() const override { return ""; }
  int device_count() const override { return 1; }
  DeviceModel model(int, int) const override { return {.flops = 1e12, .bandwidth = 1e12}; }
  std::vector<KernelRow> rows() const override { return {}; }
  std::vector<KernelDescription> describe(const KernelRequest& request) const override {
    std::vector<KernelDescription> all;
    for (KernelDescription& d : cpu_backend().describe(request))
      if (d.kernel.starts_with("native.")) all.push_back(std::move(d));
    return all;
  }
  std::unique_ptr<Device> open(int, const KernelOptions&) const override { return nullptr; }
  std::unique_ptr<CollectiveGroup> create_group(const GroupSpec&) const override { return nullptr; }
  Timing measure(const KernelDescription& d, const KernelOptions&) const override {
    const bool product = d.kernel.starts_with("native.matmul");
    return {product ? d.inputs[0].dtype == DType::bfloat16 ? narrow_product : wide_product : cast};
  }
};

// Two products of one 16-bit operand, of 0.27 GFLOP each: 0.34 ms at the rate that float32 ought to reach.
TEST(SelectKernels, RunsIn32BitsWhatTakesLessTimeSo) {
  struct Row {
    std::string name;
    double narrow, wide, cast;
    bool widened;
  };
  const Row rows[] = {
      {"16 bits are fast", 1e-4, 1e-5, 1e-6, false},
      {"16 bits are slow", 1e-3, 5e-4, 1e-5, true},
      {"16 bits are slow, casts too", 1e-3, 5e-4, 2e-4, false},
      {"32 bits are slower yet", 1e-3, 2e-3, 1e-6, false},
  };
  for (const Row& row : rows) {
    Graph g;
    GraphBuilder b(g, "n", {});
    const ValueId x = g.add_input("x", {DType::bfloat16, {512, 512}});
    const ValueId y = b.emit("MatMul", {x, x}, {{"transB", std::int64_t{1}}});
    g.outputs = {y, b.emit("MatMul", {x, y})};
    Said backend;
    backend.narrow_product = row.narrow;
    backend.wide_product = row.wide;
    backend.cast = row.cast;
    Tuner tuner(backend, true, "");
    const DeviceModel device = backend.model(0, 1);
    const LoweredGraph program = select_kernels(g, backend, {.kernel = {}, .device = &device}, tuner);
    Names names;
    for (const Step& s : program.steps) names.emplace_back(s.op());
    // x is widened once, y is what the first product's is rounded to.
    EXPECT_EQ(names, row.widened ? (Names{"Cast", "MatMul", "Cast", "Cast", "MatMul", "Cast"}) : (Names{"MatMul", "MatMul"})) << row.name;
    EXPECT_EQ(program.warnings,
              row.widened ? Names{"backend said runs these steps in less time in float32 between casts: 2 MatMul"} : Names{})
        << row.name;
  }
}

}  // namespace
}  // namespace tandem
