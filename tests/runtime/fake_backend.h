// A backend for tests of the runtime: host memory between guard bytes, kernels as functions, streams of the CPU backend.
#pragma once
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>

#include "kernels/cpu/streams.h"
#include "kernels/device.h"

namespace tandem::test {

// What a fake kernel sees when it runs.
struct Call {
  std::vector<Operand> inputs, outputs;
  std::vector<std::byte*> x, y;
  std::byte* workspace = nullptr;
  Attributes attributes;
  template <class T>
  std::span<T> in(std::size_t i) const {
    return {reinterpret_cast<T*>(x[i]), static_cast<std::size_t>(inputs[i].shape.elements())};
  }
  template <class T>
  std::span<T> out(std::size_t i) const {
    return {reinterpret_cast<T*>(y[i]), static_cast<std::size_t>(outputs[i].shape.elements())};
  }
};
using Function = std::function<void(const Call&)>;

class FakeKernel final : public Kernel {
 public:
  FakeKernel(Call call, Function function) : call_(std::move(call)), function_(std::move(function)) {}
  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte* workspace) override {
    call_.x.assign(inputs.begin(), inputs.end());
    call_.y.assign(outputs.begin(), outputs.end());
    call_.workspace = workspace;
  }
  void run(StreamHandle) override { function_(call_); }

 private:
  Call call_;
  Function function_;
};

// Memory with 64 guard bytes on either side.
class GuardedMemory {
 public:
  explicit GuardedMemory(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)), whole_(bytes_ + 2 * guard + 64, std::byte{0}) {
    const auto start = reinterpret_cast<std::uintptr_t>(whole_.data()) + guard;
    data_ = reinterpret_cast<std::byte*>((start + 63) / 64 * 64);
    std::memset(data_ - guard, 0xA5, guard);
    std::memset(data_ + bytes_, 0xA5, guard);
  }
  GuardedMemory(GuardedMemory&&) = default;
  bool whole() const {
    for (std::size_t i = 0; i < guard; ++i)
      if (data_[-1 - static_cast<std::ptrdiff_t>(i)] != std::byte{0xA5} || data_[bytes_ + i] != std::byte{0xA5}) return false;
    return true;
  }
  void poison() { std::memset(data_, 0xFF, bytes_); }  // NaN, for floats
  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  static constexpr std::size_t guard = 64;
  std::size_t bytes_;
  std::vector<std::byte> whole_;
  std::byte* data_;
};

enum class Transfer { in, out, on_device };

class FakeBackend final : public Backend {
 public:
  std::map<std::string, Function, std::less<>> functions;  // by operator
  int devices = 4;
  std::int64_t memory_limit = std::int64_t{1} << 30;  // of one device
  std::int64_t workspace = 0;                         // every kernel asks for it
  double timeout_seconds = 20;
  std::string reason;                                                                                    // why it is unusable
  bool captures_sums = false;                                                                            // and their sums with them
  bool captures = false;                                                                                 // its devices capture steps
  bool queues = false;                    // stream 0 is a queue like the others, as on a GPU
  std::function<void(Transfer)> transfers;  // called on the stream before each copy
  mutable std::atomic<int> summed_steps = 0;                                                             // begun by the ranks of a group that is captured
  mutable std::atomic<int> replays = 0;                                                                            // of captured steps
  mutable std::vector<std::vector<GuardedMemory>> memory = std::vector<std::vector<GuardedMemory>>(16);  // by device, as allocated

  mutable std::mutex lock;  // of memory

  FakeBackend() {
    functions["Scale"] = [](const Call& c) {
      const auto w = c.in<const float>(1);
      for (std::size_t i = 0; i < c.out<float>(0).size(); ++i) c.out<float>(0)[i] = c.in<const float>(0)[i] * w[i % w.size()];
    };
    functions["Gradient"] = [](const Call& c) {
      const auto g = c.out<float>(0);
      std::fill(g.begin(), g.end(), 0.0f);
      c.out<float>(1)[0] = 0;
      for (std::size_t i = 0; i < c.in<float>(0).size(); ++i) g[i % g.size()] += c.in<const float>(0)[i];
      for (const float y : c.in<const float>(1)) c.out<float>(1)[0] += y;
    };
    functions["Update"] = [](const Call& c) {
      for (std::size_t i = 0; i < c.in<float>(1).size(); ++i)
        c.out<float>(0)[i] = c.in<float>(1)[i] - c.in<float>(0)[0] * c.in<float>(2)[i];
    };
  }
  bool guards_whole() const {
    for (const auto& blocks : memory)
      for (const GuardedMemory& m : blocks)
        if (!m.whole()) return false;
    return true;
  }

  std::string name() const override { return "fake"; }
  std::string version() const override { return "1"; }
  std::string unusable() const override { return reason; }
  int device_count() const override { return devices; }
  DeviceModel model(int, int) const override { return {}; }
  std::vector<KernelRow> rows() const override { return {}; }
  std::vector<KernelDescription> describe(const KernelRequest& r) const override {
    const auto it = functions.find(r.op);
    if (it == functions.end()) return {};
    KernelDescription d{.kernel = concat("fake.", r.op), .inputs = r.inputs, .outputs = r.outputs, .workspace = workspace};
    Call call{.inputs = r.inputs, .outputs = r.outputs, .attributes = *r.attributes};
    d.make = [call, function = it->second] { return std::make_unique<FakeKernel>(call, function); };
    return {d};
  }
  Timing measure(const KernelDescription&, const KernelOptions&) const override { return {}; }
  std::unique_ptr<Device> open(int index, const KernelOptions&) const override;
  std::unique_ptr<CollectiveGroup> create_group(const GroupSpec& spec) const override;
};

// Sums of an in-process group, that may be recorded.
class CapturedGroup final : public CollectiveGroup {
 public:
  CapturedGroup(std::unique_ptr<CollectiveGroup> group, std::atomic<int>& steps) : group_(std::move(group)), steps_(steps) {}
  std::unique_ptr<Kernel> make(const ExchangeSpec& spec, int rank) override { return group_->make(spec, rank); }
  void abort(const std::string& reason) override { group_->abort(reason); }
  bool captures() const override { return true; }
  void begin_step(int) override { ++steps_; }

 private:
  std::unique_ptr<CollectiveGroup> group_;
  std::atomic<int>& steps_;
};

inline std::unique_ptr<CollectiveGroup> FakeBackend::create_group(const GroupSpec& spec) const {
  auto group = in_process_group(static_cast<int>(spec.devices.size()), timeout_seconds);
  if (!captures_sums) return group;
  return std::make_unique<CapturedGroup>(std::move(group), summed_steps);
}

// Calls the backend's `transfers`, in the order of the stream.
class TransferKernel final : public Kernel {
 public:
  TransferKernel(const FakeBackend& backend, Transfer transfer) : backend_(backend), transfer_(transfer) {}
  void bind(std::span<std::byte* const>, std::span<std::byte* const>, std::byte*) override {}
  void run(StreamHandle) override {
    if (backend_.transfers) backend_.transfers(transfer_);
  }

 private:
  const FakeBackend& backend_;
  const Transfer transfer_;
};

// Kernels queued while a capture lasts are kept for later instead of run.
struct Capture {
  bool open = false;
  std::vector<Kernel*> kernels;
};
class CapturingStream final : public Stream {
 public:
  CapturingStream(std::unique_ptr<Stream> stream, const FakeBackend& backend, Capture& capture)
      : stream_(std::move(stream)), capture_(capture), in_(backend, Transfer::in), out_(backend, Transfer::out), on_device_(backend, Transfer::on_device) {}
  void launch(Kernel& kernel) override { capture_.open ? capture_.kernels.push_back(&kernel) : stream_->launch(kernel); }
  void copy_in(std::byte* device, const std::byte* host, std::int64_t bytes) override {
    before(in_, "copy in");
    stream_->copy_in(device, host, bytes);
  }
  void copy_out(std::byte* host, const std::byte* device, std::int64_t bytes) override {
    before(out_, "copy out");
    stream_->copy_out(host, device, bytes);
  }
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) override {
    before(on_device_, "copy");
    stream_->copy(to, from, bytes);
  }
  void record(Event& event) override { capture_.open ? void() : stream_->record(event); }
  void wait(Event& event) override { capture_.open ? void() : stream_->wait(event); }
  void synchronize() override { (outside("synchronize"), stream_->synchronize()); }

 private:
  void outside(std::string_view what) const {
    if (capture_.open) fail(ExitCode::device, what, " during a capture");
  }
  void before(TransferKernel& transfer, std::string_view what) {
    outside(what);
    stream_->launch(transfer);
  }
  std::unique_ptr<Stream> stream_;
  Capture& capture_;
  TransferKernel in_, out_, on_device_;
};
class FakeGraph final : public CapturedGraph {
 public:
  FakeGraph(std::vector<Kernel*> kernels, std::atomic<int>& replays) : kernels_(std::move(kernels)), replays_(replays) {}
  void launch(Stream& stream) override {
    for (Kernel* k : kernels_) stream.launch(*k);
    ++replays_;
  }

 private:
  std::vector<Kernel*> kernels_;
  std::atomic<int>& replays_;
};

class FakeDevice final : public Device {
 public:
  FakeDevice(const FakeBackend& backend, int index) : backend_(backend), index_(static_cast<std::size_t>(index)) {}
  void activate() override {}
  std::byte* allocate(std::int64_t bytes) override {
    if ((used_ += bytes) > backend_.memory_limit) fail(ExitCode::device, "out of memory: ", used_, " bytes of ", backend_.memory_limit);
    const std::scoped_lock hold(backend_.lock);  // logical devices share an index
    return backend_.memory[index_].emplace_back(bytes).data();
  }
  std::byte* allocate_host(std::int64_t bytes) override { return allocate(bytes); }
  std::unique_ptr<Stream> create_stream(int index) override {
    return std::make_unique<CapturingStream>(index == 0 && !backend_.queues ? inline_stream() : queue_stream({}), backend_, capture_);
  }
  std::unique_ptr<Event> create_event() override { return cpu_event(); }
  bool can_capture() const override { return backend_.captures; }
  void begin_capture(Stream&) override { capture_.open = true; }
  std::unique_ptr<CapturedGraph> end_capture(Stream&) override {
    capture_.open = false;
    return std::make_unique<FakeGraph>(std::exchange(capture_.kernels, {}), backend_.replays);
  }

 private:
  Capture capture_;
  const FakeBackend& backend_;
  const std::size_t index_;
  std::int64_t used_ = 0;
};

inline std::unique_ptr<Device> FakeBackend::open(int index, const KernelOptions&) const {
  return std::make_unique<FakeDevice>(*this, index);
}

}  // namespace tandem::test
