#include <omp.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <set>
#include <thread>

#include "base/cores.h"
#include "graph/step_scalars.h"
#include "kernels/cpu/backend.h"
#include "kernels/cpu/machine.h"
#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

class Call final : public Kernel {
 public:
  explicit Call(std::function<void()> f) : f_(std::move(f)) {}
  void bind(std::span<std::byte* const>, std::span<std::byte* const>, std::byte*) override {}
  void run(StreamHandle) override { f_(); }

 private:
  std::function<void()> f_;
};

std::int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * 4096;
}

// A sanitizer keeps notes of its own beside the memory that is written.
#ifdef TANDEM_SANITIZED
constexpr bool resident_is_the_programs_own = false;
#else
constexpr bool resident_is_the_programs_own = true;
#endif

volatile float tiny = 1e-20F;

// As in the gradients of a long recurrence, by every thread that computes.
TEST(CpuDevice, SubnormalsAreZero) {
  std::vector<float> products(4, -1);
  std::thread([&] {
    const std::unique_ptr<Device> device = cpu_backend().open(0, {.threads = 2});
    device->activate();
#pragma omp parallel for num_threads(2) schedule(static)
    for (std::size_t i = 0; i < products.size(); ++i) products[i] = tiny * tiny;  // 1e-40
  }).join();
  EXPECT_EQ(products, std::vector<float>(4, 0));
}

TEST(CpuDevice, MemoryIsZeroedAlignedAndNoMoreThanAsked) {
  const auto device = cpu_backend().open(0, {});
  for (const std::int64_t bytes :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{4096}, std::int64_t{(5 << 20) + 12345}, std::int64_t{64} << 20}) {
    const std::int64_t before = resident_bytes();
    std::byte* const memory = device->allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 4096, 0u);
    EXPECT_TRUE(std::all_of(memory, memory + bytes, [](std::byte b) { return b == std::byte{0}; }));
    std::memset(memory, 1, static_cast<std::size_t>(bytes));
    if (resident_is_the_programs_own) {
      EXPECT_LE(resident_bytes() - before, bytes + (1 << 20)) << bytes;
    }
  }
}

TEST(CpuDevice, TooMuchMemoryIsAnErrorThatSaysHowMuchThereIs) {
  const auto device = cpu_backend().open(3, {});
  try {
    device->allocate(std::int64_t{1} << 60);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::device);
    EXPECT_NE(std::string(e.what()).find("cpu:3: needs 1152921504606846976 bytes of memory"), std::string::npos) << e.what();
  }
}

TEST(CpuDevice, DevicesThatDoNotExistAreErrors) {
  EXPECT_THROW(cpu_backend().open(64, {}), Error);
  EXPECT_THROW(cpu_backend().model(-1, 1), Error);
}

TEST(CpuDevice, ModelsShareTheMachine) {
  const DeviceModel one = cpu_backend().model(0, 1), many = cpu_backend().model(5, 1000);
  EXPECT_GT(one.memory, 0);
  EXPECT_GE(one.threads, 1);
  EXPECT_EQ(many.threads, 1);
  EXPECT_LT(many.flops, one.flops);
  EXPECT_LT(many.memory, one.memory);
  EXPECT_EQ(one.memory, many.memory * 1000 + one.memory % 1000);  // all of it, whatever is free now: equal plans for equal machines
  EXPECT_GT(cpu_backend().free_memory(0, 1), 0);
  EXPECT_LT(cpu_backend().free_memory(0, 1), one.memory);
}

// OMP_THREAD_LIMIT is read when the process starts, so a test can only hold the limit that there is; the tsan preset
// sets it for the whole suite, and a oneDNN kernel made for a larger team would never end there.
TEST(CpuDevice, NoTeamIsLargerThanOpenMpAllows) {
  const int limit = omp_get_thread_limit();
  EXPECT_EQ(team_size(1 << 30), std::min(1 << 30, limit));
  EXPECT_EQ(team_size(1), 1);
  EXPECT_EQ(team_size(0), 1);
  EXPECT_LE(cpu_backend().model(0, 1).threads, limit);
}

TEST(CpuStream, QueueRunsInOrderBesideTheCaller) {
  const auto device = cpu_backend().open(0, {});
  const auto stream = device->create_stream(1);
  const auto mine = std::this_thread::get_id();
  std::vector<int> order;
  Call first([&] { EXPECT_NE(std::this_thread::get_id(), mine); order.push_back(1); });
  Call second([&] { order.push_back(2); });
  for (int i = 0; i < 3000; ++i) stream->launch(i % 2 ? second : first);  // more than the ring holds
  stream->synchronize();
  ASSERT_EQ(order.size(), 3000u);
  EXPECT_EQ(order[0], 1);
  EXPECT_EQ(order[2999], 2);
}

TEST(CpuStream, EventsOrderTwoStreams) {
  const auto device = cpu_backend().open(0, {});
  const auto compute = device->create_stream(0), communicate = device->create_stream(1);
  const auto ready = device->create_event(), done = device->create_event();
  int value = 0;
  Call produce([&] { value = 5; });
  Call twice([&] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); value *= 2; });
  Call add([&] { value += 1; });
  for (int step = 0; step < 20; ++step) {
    compute->launch(produce);
    compute->record(*ready);
    communicate->wait(*ready);
    communicate->launch(twice);
    communicate->record(*done);
    compute->wait(*done);
    compute->launch(add);
    EXPECT_EQ(value, 11);
  }
  communicate->synchronize();
}

TEST(CpuStream, CopiesGoBothWays) {
  const auto device = cpu_backend().open(0, {});
  for (const int index : {0, 2}) {
    const auto stream = device->create_stream(index);
    std::byte* const memory = device->allocate(16);
    const char text[16] = "fifteen letters";
    char back[16] = {};
    stream->copy_in(memory, reinterpret_cast<const std::byte*>(text), 16);
    stream->copy_out(reinterpret_cast<std::byte*>(back), memory, 16);
    stream->synchronize();
    EXPECT_STREQ(back, text);
  }
}

TEST(CpuStream, AFailureSkipsWhatFollowsHereAndBehindEventsAndIsThrownOnce) {
  const auto device = cpu_backend().open(0, {});
  const auto stream = device->create_stream(1), waiting = device->create_stream(2);
  const auto event = device->create_event();
  std::atomic<int> ran = 0;
  Call bad([] { fail(ExitCode::communication, "rank 3 is gone"); });
  Call good([&] { ++ran; });
  stream->launch(bad);
  stream->launch(good);
  stream->record(*event);
  waiting->wait(*event);
  waiting->launch(good);
  for (Stream* const failing : {waiting.get(), stream.get()}) {
    try {
      failing->synchronize();
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::communication);
    }
  }
  EXPECT_EQ(ran, 0);
  stream->launch(good);
  stream->record(*event);
  waiting->wait(*event);
  waiting->launch(good);
  waiting->synchronize();
  EXPECT_EQ(ran, 2);
}

TEST(CpuBackend, FindsAKernelAgainByItsName) {
  Case c{"Reorder", {}, {operand(DType::float32, {2, 20, 3, 5}, "abcd")}, {operand(DType::float32, {2, 20, 3, 5}, "aBcd16b")}};
  for (const KernelDescription& d : cpu_backend().describe(c.request())) {
    KernelRequest again = c.request();
    again.kernel = d.kernel;
    const auto found = cpu_backend().describe(again);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].kernel, d.kernel);
  }
}

TEST(CpuBackend, TellsOfEveryOperatorThatARowServes) {
  std::set<std::pair<std::string_view, std::string_view>> rows;
  for (const KernelRow& row : cpu_backend().rows()) EXPECT_TRUE(rows.insert({row.op, row.kernel}).second) << row.op << ' ' << row.kernel;
  for (const std::string_view op : {"Elementwise", "Tanh", "Less", "Where", "Cast"})
    EXPECT_TRUE(rows.contains({op, "native.elementwise"})) << op;
  EXPECT_TRUE(rows.contains({"Cast", "onednn.cast"}));
}

TEST(CpuBackend, MeasuresAKernel) {
  const Operand x = plain(DType::float32, {1 << 16});
  const KernelDescription d = described({"Add", {}, {x, x}, {x}});
  const double seconds = cpu_backend().measure(d, {}).seconds;
  EXPECT_GT(seconds, 1e-7);
  EXPECT_LT(seconds, 1.0);
}

// Noise there would tell an update to do nothing.
TEST(CpuBackend, MeasuresAStepThatIsNotSkipped) {
  struct Reader final : Kernel {
    explicit Reader(StepScalars& to) : to_(to) {}
    void bind(std::span<std::byte* const> inputs, std::span<std::byte* const>, std::byte*) override { from_ = inputs[0]; }
    void run(StreamHandle) override { std::memcpy(&to_, from_, sizeof to_); }
    StepScalars& to_;
    const std::byte* from_ = nullptr;
  };
  StepScalars seen{.skip = 1};
  const Operand scalars = plain(DType::float32, {StepScalars::count});
  cpu_backend().measure(
      {.kernel = "reader", .inputs = {scalars}, .outputs = {scalars}, .make = [&] { return std::make_unique<Reader>(seen); }}, {});
  EXPECT_EQ(seen.skip, 0);
  EXPECT_GT(seen.learning_rate, 0);
  EXPECT_GT(seen.correction2, 0);
}

// More devices than cores take turns on them.
TEST(CpuDevice, SharedCoresAreSlower) {
  const int cores = static_cast<int>(usable_cores().size());
  const DeviceModel alone = cpu_backend().model(0, cores), shared = cpu_backend().model(0, 4 * cores);
  EXPECT_EQ(alone.sharing, 1);
  EXPECT_EQ(shared.sharing, 4);
  EXPECT_EQ(shared.threads, 1);
  EXPECT_DOUBLE_EQ(shared.launch_seconds, 4 * alone.launch_seconds);
  EXPECT_DOUBLE_EQ(shared.flops, alone.flops / 4);
}

}  // namespace
}  // namespace tandem::native_tests
