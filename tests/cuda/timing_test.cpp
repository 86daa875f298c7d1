// How kernels are timed, on a device that records what they are bound to when they are launched, as CUDA's graphs do.
#include "kernels/cuda/timing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <set>

#include "graph/step_scalars.h"

namespace tandem::cuda {
namespace {

using Recording = std::vector<const std::byte*>;  // the first operand's memory, launch by launch

struct Recorder {
  std::deque<std::vector<std::byte>> memory;
  Recording recording, used;
  std::vector<float> numbers;  // of the first operand, as it was bound at first
  std::vector<std::byte> integers;  // 16 bytes of the second
  bool open = false, refuses = false;
  int replays = 0;
};

class Probe final : public Kernel {
 public:
  explicit Probe(Recorder& recorder) : recorder_(recorder) { recorder.numbers.clear(); }
  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const>, std::byte*) override {
    first_ = inputs[0];
    if (!recorder_.numbers.empty()) return;
    recorder_.numbers.resize(1000);
    std::memcpy(recorder_.numbers.data(), first_, 4000);
    recorder_.integers.assign(inputs[1], inputs[1] + 16);
  }
  void run(StreamHandle stream) override { (stream.native ? *static_cast<Recording*>(stream.native) : recorder_.used).push_back(first_); }

 private:
  Recorder& recorder_;
  const std::byte* first_ = nullptr;
};

class RecordingStream final : public Stream {
 public:
  explicit RecordingStream(Recorder& recorder) : recorder_(recorder) {}
  void launch(Kernel& kernel) override { kernel.run({recorder_.open ? &recorder_.recording : nullptr}); }
  void copy_in(std::byte* device, const std::byte* host, std::int64_t bytes) override {
    std::memcpy(device, host, static_cast<std::size_t>(bytes));
  }
  void copy_out(std::byte*, const std::byte*, std::int64_t) override {}
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) override { std::memcpy(to, from, static_cast<std::size_t>(bytes)); }
  void fill(std::byte* to, std::byte value, std::int64_t bytes) override {
    std::memset(to, static_cast<int>(value), static_cast<std::size_t>(bytes));
  }
  void record(Event&) override {}
  void wait(Event&) override {}
  void synchronize() override {}

 private:
  Recorder& recorder_;
};

class Replay final : public CapturedGraph {
 public:
  explicit Replay(Recorder& recorder) : recorder_(recorder), recording_(std::exchange(recorder.recording, {})) {}
  void launch(Stream&) override {
    recorder_.used.insert(recorder_.used.end(), recording_.begin(), recording_.end());
    ++recorder_.replays;
  }

 private:
  Recorder& recorder_;
  const Recording recording_;
};

class RecordingDevice final : public Device {
 public:
  explicit RecordingDevice(Recorder& recorder) : recorder_(recorder) {}
  void activate() override {}
  std::byte* allocate(std::int64_t bytes) override { return recorder_.memory.emplace_back(static_cast<std::size_t>(bytes)).data(); }
  std::byte* allocate_host(std::int64_t bytes) override { return allocate(bytes); }
  std::unique_ptr<Stream> create_stream(int) override { return std::make_unique<RecordingStream>(recorder_); }
  std::unique_ptr<Event> create_event() override { return nullptr; }
  bool can_capture() const override { return true; }
  void begin_capture(Stream&) override { recorder_.open = true; }
  std::unique_ptr<CapturedGraph> end_capture(Stream&) override {
    recorder_.open = false;
    if (recorder_.refuses) fail(ExitCode::device, "the capture failed");
    return std::make_unique<Replay>(recorder_);
  }

 private:
  Recorder& recorder_;
};

class KernelTiming : public testing::Test {
 protected:
  KernelTimer timer(std::int64_t cache_bytes) { return {std::make_unique<RecordingDevice>(recorder), cache_bytes}; }
  Timing time(KernelTimer& t, DType second = DType::int32, std::int64_t elements = 1000) {
    const Operand x{DType::float32, Shape{elements}, Layout::row_major(1)}, n{second, Shape{4}, Layout::row_major(1)};
    return time(t, {.kernel = "probe", .inputs = {x, n, Operand{}}, .outputs = {x}});
  }
  Timing time(KernelTimer& t, KernelDescription d) {
    d.make = [this] { return std::make_unique<Probe>(recorder); };
    return t.time(d);
  }
  Timing time(std::int64_t cache_bytes) {
    KernelTimer t = timer(cache_bytes);
    return time(t);
  }
  Recorder recorder;
};

TEST_F(KernelTiming, IsOfMemoryThatNoCacheHolds) {
  const Timing t = time(20000);  // two times that are five of 8016 bytes
  EXPECT_GT(t.seconds, 0);
  EXPECT_TRUE(std::isfinite(t.seconds));
  const std::vector<const std::byte*>& used = recorder.used;
  EXPECT_EQ(std::set(used.begin(), used.end()).size(), 5U);
  EXPECT_EQ(std::adjacent_find(used.begin() + 2, used.end()), used.end())
      << "behind the launches that load it, no memory is used twice in a row";
  EXPECT_EQ(recorder.replays, 6);
}

TEST_F(KernelTiming, IsOfNoise) {
  time(0);
  const std::set<float> numbers(recorder.numbers.begin(), recorder.numbers.end());
  EXPECT_GT(numbers.size(), 900U);
  EXPECT_GE(*numbers.begin(), 0.5F);
  EXPECT_LE(*numbers.rbegin(), 1.5F);
  EXPECT_EQ(recorder.integers, (std::vector<std::byte>(16))) << "integers of which nothing is known";
  KernelTimer t = timer(0);
  time(t, DType::boolean);
  EXPECT_EQ((std::set(recorder.integers.begin(), recorder.integers.begin() + 4)), (std::set{std::byte{0}, std::byte{1}})) << "a mask";
}

// Where all are zero, all rows that are picked come from a cache.
TEST_F(KernelTiming, IsOfIndicesThatDiffer) {
  const Operand x{DType::float32, Shape{1000}, Layout::row_major(1)}, y{DType::float32, Shape{4}, Layout::row_major(1)};
  KernelTimer t = timer(0);
  time(t, {.kernel = "native.gather", .inputs = {x, {DType::int32, Shape{4}, Layout::row_major(1)}}, .outputs = {y}});
  std::int32_t seen[4];
  std::memcpy(seen, recorder.integers.data(), sizeof seen);
  EXPECT_GT(std::set(std::begin(seen), std::end(seen)).size(), 1U);
  for (const std::int32_t i : seen) {
    EXPECT_GE(i, 0);
    EXPECT_LT(i, 1000);
  }
}

// Noise there would tell an update to do nothing.
TEST_F(KernelTiming, IsOfAStepThatIsNotSkipped) {
  KernelTimer t = timer(0);
  time(t, DType::int32, StepScalars::count);
  std::array<float, StepScalars::count> numbers;
  std::copy_n(recorder.numbers.data(), numbers.size(), numbers.begin());
  const auto seen = std::bit_cast<StepScalars>(numbers);
  EXPECT_EQ(seen.skip, 0);
  EXPECT_GT(seen.learning_rate, 0);
  EXPECT_GT(seen.correction2, 0);
}

// Cleared memory and noise cost more than most of what is timed.
TEST_F(KernelTiming, TakesItsMemoryOnce) {
  KernelTimer t = timer(20000);
  time(t);
  const std::size_t taken = recorder.memory.size();
  time(t);
  time(t);
  EXPECT_EQ(recorder.memory.size(), taken);
}

TEST_F(KernelTiming, IsInfiniteWhereNoStepCouldHaveTheKernel) {
  recorder.refuses = true;
  EXPECT_TRUE(std::isinf(time(1000).seconds));
}

}  // namespace
}  // namespace tandem::cuda
