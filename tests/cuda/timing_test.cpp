// How kernels are timed, on a device that records what they are bound to when they are launched, as CUDA's graphs do.
#include "kernels/cuda/timing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <set>

namespace tandem::cuda {
namespace {

using Recording = std::vector<const std::byte*>;  // the first operand's memory, launch by launch

class Probe final : public Kernel {
 public:
  explicit Probe(Recording& used) : used_(used) {}
  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const>, std::byte*) override { first_ = inputs[0]; }
  void run(StreamHandle stream) override { (stream.native ? *static_cast<Recording*>(stream.native) : used_).push_back(first_); }

 private:
  Recording& used_;
  const std::byte* first_ = nullptr;
};

struct Recorder {
  std::deque<std::vector<std::byte>> memory;
  Recording recording, used;
  bool open = false, refuses = false;
  int replays = 0;
};

class RecordingStream final : public Stream {
 public:
  explicit RecordingStream(Recorder& recorder) : recorder_(recorder) {}
  void launch(Kernel& kernel) override { kernel.run({recorder_.open ? &recorder_.recording : nullptr}); }
  void copy_in(std::byte* device, const std::byte* host, std::int64_t bytes) override {
    std::memcpy(device, host, static_cast<std::size_t>(bytes));
  }
  void copy_out(std::byte*, const std::byte*, std::int64_t) override {}
  void copy(std::byte*, const std::byte*, std::int64_t) override {}
  void fill(std::byte*, std::byte, std::int64_t) override {}
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
  Timing time(std::int64_t cache_bytes) {
    const Operand x{DType::float32, Shape{1000}, Layout::row_major(1)}, n{DType::int32, Shape{4}, Layout::row_major(1)};
    const KernelDescription d{
        .kernel = "probe", .inputs = {x, n, Operand{}}, .outputs = {x}, .make = [this] { return std::make_unique<Probe>(recorder.used); }};
    RecordingDevice device(recorder);
    return time_kernel(device, d, cache_bytes);
  }
  Recorder recorder;
};

TEST_F(KernelTiming, IsOfMemoryThatNoCacheHolds) {
  const Timing t = time(20000);  // two times that are five of 8016 bytes
  EXPECT_GT(t.seconds, 0);
  EXPECT_TRUE(std::isfinite(t.seconds));
  const Recording& used = recorder.used;
  EXPECT_EQ(std::set(used.begin(), used.end()).size(), 5U);
  EXPECT_EQ(std::adjacent_find(used.begin() + 2, used.end()), used.end())
      << "behind the launches that load it, no memory is used twice in a row";
  EXPECT_EQ(recorder.replays, 21);
}

TEST_F(KernelTiming, IsOfNoise) {
  time(0);
  for (const std::vector<std::byte>& operand : recorder.memory) {
    std::set<float> values;
    for (std::size_t i = 0; i < operand.size(); i += sizeof(float)) {
      float value = 0;
      std::memcpy(&value, operand.data() + i, sizeof value);
      values.insert(value);
    }
    if (operand.size() == 16) {
      EXPECT_EQ(values, std::set<float>{0}) << "indices and masks";
    } else {
      EXPECT_GT(values.size(), 900U);
      EXPECT_GE(*values.begin(), 0.5F);
      EXPECT_LE(*values.rbegin(), 1.5F);
    }
  }
}

TEST_F(KernelTiming, TakesOneCopyOfWhatIsLarger) {
  time(1000);
  EXPECT_EQ(recorder.memory.size(), 3U);
}

TEST_F(KernelTiming, IsInfiniteWhereNoStepCouldHaveTheKernel) {
  recorder.refuses = true;
  EXPECT_TRUE(std::isinf(time(1000).seconds));
}

}  // namespace
}  // namespace tandem::cuda
