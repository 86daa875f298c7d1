// Plans that do not fit a device's memory are refused, with the batch that would fit.
#include <gtest/gtest.h>

#include <charconv>

#include "graph/operator.h"
#include "kernels/cpu/backend.h"
#include "planner/compile.h"
#include "planner/plan/plan_file.h"

namespace tandem {
namespace {

// The CPU backend on a device of a given memory, of which some is free.
class Limited final : public Backend {
 public:
  explicit Limited(std::int64_t memory, std::int64_t free = -1, std::string name = "cpu")
      : memory_(memory), free_(free), name_(std::move(name)) {}
  std::string name() const override { return name_; }
  std::string version() const override { return cpu_backend().version(); }
  std::string unusable() const override { return {}; }
  int device_count() const override { return 8; }
  DeviceModel model(int index, int devices_in_use) const override {
    DeviceModel m = cpu_backend().model(index, devices_in_use);
    m.memory = memory_;
    return m;
  }
  std::int64_t free_memory(int index, int) const override {
    asked.push_back(index);
    return free_;
  }
  mutable std::vector<int> asked;  // for what is free
  bool stages = false;
  bool stages_inputs() const override { return stages; }
  std::vector<KernelRow> rows() const override { return cpu_backend().rows(); }
  std::vector<KernelDescription> describe(const KernelRequest& request) const override { return cpu_backend().describe(request); }
  Timing measure(const KernelDescription&, const KernelOptions&) const override { return {}; }
  std::unique_ptr<Device> open(int index, const KernelOptions& options) const override { return cpu_backend().open(index, options); }

 private:
  std::int64_t memory_, free_;
  const std::string name_;
};

Graph layer(std::int64_t n) {
  Graph g;
  g.name = "layer";
  const ValueId x = g.add_input("x", {DType::float32, {n, 1000}});
  const ValueId w = g.add_parameter("w", {DType::float32, {500, 1000}}, Tensor(TensorType{DType::float32, {500, 1000}}), true);
  g.outputs = {g[g.add_node(internal_operator("Gemm"), "gemm", {{"transB", std::int64_t{1}}}, {x, w}, 1, {"gemm"})].outputs[0]};
  return g;
}

Plan plan_on(const Backend& backend, std::int64_t batch, int logical_devices = 1, const Plan* parameters_of = nullptr, int machines = 1) {
  CompileOptions o;
  o.batch = batch;
  for (int m = 0; m < machines; ++m)
    for (int i = 0; i < logical_devices; ++i) o.devices.push_back({{"cpu", 0}, 1, i});
  const Backend* const backends[] = {&backend};
  return compile(layer, o, backends, parameters_of);
}
std::string refusal(const Backend& backend, std::int64_t batch, int logical_devices = 1) {
  try {
    plan_on(backend, batch, logical_devices);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::device);
    return e.what();
  }
  return "";
}
bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

TEST(MemoryLimit, NamesTheLargestBatchThatFits) {
  const Limited small(16 * mebibyte);
  const std::string text = refusal(small, 4000);
  ASSERT_TRUE(has(text, "has 16 MiB (weights ")) << text;
  const std::string_view before = "the largest batch that fits is ";
  ASSERT_TRUE(has(text, before)) << text;
  std::int64_t fits = 0;
  std::from_chars(text.data() + text.find(before) + before.size(), text.data() + text.size(), fits);
  EXPECT_EQ(refusal(small, fits), "");
  EXPECT_NE(refusal(small, fits + 1), "");
}

TEST(MemoryLimit, SaysWhereNotEvenOneSampleFits) {
  EXPECT_TRUE(has(refusal(Limited(mebibyte), 8), "not even a batch of 1 fits"));
}

// Weights of 2 MB with Adam's two states and a gradient; the device keeps no state where the host updates.
TEST(MemoryLimit, TheHostMayHaveTheOptimizer) {
  CompileOptions o;
  o.batch = 8;
  o.devices = {{{"gpu", 0}}};
  o.optimizer = optimizer_defaults("adam");
  const auto planned = [&](std::int64_t memory, const CompileOptions& options) {
    const Limited gpu(memory, -1, "gpu");
    const Backend* const backends[] = {&gpu, &cpu_backend()};
    return compile(layer, options, backends);
  };
  std::string text;
  try {
    planned(5 * mebibyte, o);
  } catch (const Error& e) {
    text = e.what();
  }
  EXPECT_TRUE(has(text, "; with option offload optimizer trained weights and the optimizer's states are in host memory: ")) << text;
  CompileOptions offloaded = o;
  offloaded.devices.push_back({.id = {"cpu", 0}, .weight = 0});
  offloaded.parallel.weights_on = 1;
  const Plan whole = planned(0, o), plan = planned(5 * mebibyte, offloaded);
  const auto bytes = [](const Plan& p, int device, ArenaKind kind) {
    const DeviceProgram& program = p.program_of(device);
    const auto arena = std::ranges::find(program.arenas, kind, &Arena::kind);
    return arena == program.arenas.end() ? 0 : arena->bytes;
  };
  EXPECT_EQ(bytes(plan, 0, ArenaKind::optimizer), 0);
  EXPECT_EQ(bytes(plan, 1, ArenaKind::optimizer), bytes(whole, 0, ArenaKind::optimizer));
  double seconds = 0;
  for (const Exchange& e : plan.exchanges) seconds += e.seconds;
  EXPECT_GE(seconds, 2 * 2e6 / 25e9) << "2 MB go each way";
  EXPECT_TRUE(has(text_of_plan(plan, false), "by host memory")) << text_of_plan(plan, false);
  // A CPU has its states in host memory.
  o.devices = {{{"cpu", 0}}};
  o.memory.most = {5 * mebibyte};
  const Backend* const backends[] = {&cpu_backend()};
  try {
    compile(layer, o, backends);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_FALSE(has(e.what(), "offload")) << e.what();
  }
}

// Before a library is asked: oneDNN divides by zero for sizes beyond 32 bits.
TEST(MemoryLimit, AValueAloneCanBeTooLarge) {
  const Limited small(16 * mebibyte);
  const std::string text = refusal(small, 4000), larger = refusal(small, std::int64_t{1} << 30);
  EXPECT_TRUE(has(larger, "device cpu:0 has 16 MiB, too little for 'x' float32[1073741824,1000] alone, for a batch of 1073741824"))
      << larger;
  const auto fits = [](const std::string& message) { return std::stoll(message.substr(message.find("that fits is ") + 13)); };
  EXPECT_EQ(fits(text), fits(larger)) << larger;
  // By the fewest micro-batches that fit.
  EXPECT_TRUE(has(text, "; with option micro_batches 4: ") && !has(text, "micro_batches 8")) << text;
}

// Where memory would do, or is not known.
TEST(MemoryLimit, SizesBeyond32BitsAreRefused) {
  for (const std::int64_t batch :
       {std::int64_t{1} << 31, std::int64_t{1} << 32, (std::int64_t{1} << 32) + 1, std::int64_t{1} << 40, std::int64_t{1} << 62}) {
    try {
      plan_on(Limited(0), batch);
      ADD_FAILURE() << batch;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      EXPECT_TRUE(has(e.what(), "batch size must be 1 to 2147483647")) << e.what();
    }
  }
  Graph g;
  const ValueId x = g.add_input("x", {DType::boolean, {2, std::int64_t{1} << 32}});
  g.outputs = {g[g.add_node(internal_operator("Not"), "not", {}, {x}, 1, {"not"})].outputs[0]};
  CompileOptions o{.mode = PlanMode::inference, .batch = 2, .devices = {{{"cpu", 0}}}};
  const Limited any(0);
  const Backend* const backends[] = {&any};
  try {
    compile([&](std::int64_t) { return g; }, o, backends);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_TRUE(has(e.what(), "value 'x' bool[2,4294967296] has an axis of 4294967296 elements, expected at most 2147483647")) << e.what();
  }
}

TEST(MemoryLimit, LogicalDevicesShareTheirDevices) {
  const Plan alone = plan_on(Limited(0), 64), shared = plan_on(Limited(0), 64, 2);
  const std::int64_t both = shared.program_of(0).peak_bytes() + shared.program_of(1).peak_bytes();
  ASSERT_GT(both, alone.program_of(0).peak_bytes());
  EXPECT_EQ(refusal(Limited(both), 64, 2), "");
  EXPECT_TRUE(has(refusal(Limited(both - 1), 64, 2), "for each of 2 logical devices"));
}

TEST(MemoryLimit, MachinesHaveMemoryOfTheirOwn) {
  for (const int logical : {1, 2}) {
    const std::int64_t machine = logical * plan_on(Limited(0), 128, logical, nullptr, 2).program_of(0).peak_bytes();
    EXPECT_NO_THROW(plan_on(Limited(machine), 128, logical, nullptr, 2)) << logical;
    EXPECT_THROW(plan_on(Limited(machine - 1), 128, logical, nullptr, 2), Error) << logical;
  }
}

TEST(MemoryLimit, RoomForTheNextBatchCounts) {
  Limited staging(0);
  const Plan without = plan_on(staging, 64);
  staging.stages = true;
  const Plan with = plan_on(staging, 64);
  const auto inputs = [](const Plan& p) {
    return std::find_if(p.program_of(0).memory.begin(), p.program_of(0).memory.end(),
                        [](const auto& m) { return m.first == MemoryClass::inputs; })
        ->second;
  };
  const std::int64_t batch = 64 * 1000 * 4 + 64 * 8;  // x and its labels
  EXPECT_EQ(with.program_of(0).peak_bytes(), without.program_of(0).peak_bytes() + batch);
  EXPECT_EQ(inputs(with), inputs(without) + batch);
  for (const Step& s : with.program_of(0).steps) {
    const auto* slice = s.as<SliceStep>();
    if (!slice) continue;
    const std::string& name = with.inputs[static_cast<std::size_t>(slice->host)].name;
    EXPECT_NE(s.workspace.present(), name.starts_with("tandem.")) << name << ": what only the step knows comes with it";
  }
}

TEST(MemoryLimit, OnlyWhatIsFreeCounts) {
  const Limited busy(1024 * mebibyte, 2 * mebibyte);
  EXPECT_TRUE(has(refusal(busy, 64), "has 2 MiB"));
  const Plan first = plan_on(Limited(1024 * mebibyte, 1024 * mebibyte), 64);
  EXPECT_NO_THROW(plan_on(busy, 32, 1, &first)) << "its parameters are there already";
}

// Devices of other processes are not asked: their processes say what is free.
TEST(MemoryLimit, ADeviceIsAskedByItsOwnProcess) {
  const Limited backend(1024 * mebibyte, 7);
  const Backend* const backends[] = {&backend};
  CompileOptions o;
  o.batch = 64;
  for (int i = 0; i < 4; ++i) o.devices.push_back({{"cpu", i}});
  EXPECT_EQ(free_memory(o.devices, {2, 2}, backends), (std::vector<std::int64_t>{0, 0, 7, 7}));
  EXPECT_EQ(backend.asked, (std::vector<int>{2, 3}));
  backend.asked.clear();
  o.memory.free = {1024 * mebibyte, 1024 * mebibyte, 2 * mebibyte, -1};
  const auto planned = [&] {
    try {
      compile(layer, o, backends);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_TRUE(has(planned(), "device cpu:2 needs ")) << planned();
  o.memory.free[2] = 1024 * mebibyte;
  EXPECT_EQ(planned(), "");
  EXPECT_EQ(backend.asked, std::vector<int>());
}

}  // namespace
}  // namespace tandem
