// A backend for tests of the runtime: host memory between guard bytes, kernels as functions, streams of the CPU backend.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "kernels/cpu/streams.h"
#include "kernels/device.h"
#include "kernels/meetings.h"

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
  // begun by the ranks of a group that is captured
  mutable std::atomic<int> summed_steps = 0;
  mutable std::atomic<int> replays = 0;                                                                            // of captured steps
  mutable std::vector<std::vector<GuardedMemory>> memory = std::vector<std::vector<GuardedMemory>>(16);  // by device, as allocated

  mutable std::vector<GuardedMemory> pinned;                                                             // of allocate_host
  bool capture_fails = false;
  mutable std::atomic<std::int64_t> bytes_in = 0;  // copied from the host by streams
  mutable std::atomic<int> sums_under_way = 0;
  mutable std::atomic<int> late_loads = 0;  // of kernels that were launched for the first time beside a sum under way

  mutable std::mutex lock;  // of all memory, and of what was loaded

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
  bool is_pinned(const std::byte* address) const {
    const std::scoped_lock hold(lock);
    return std::any_of(pinned.begin(), pinned.end(),
                       [&](const GuardedMemory& m) { return address >= m.data() && address < m.data() + m.size(); });
  }
  void load(const Kernel& kernel) const {
    const std::scoped_lock hold(lock);
    if (loaded_.insert(&kernel).second && sums_under_way > 0 && (queues || captures)) ++late_loads;
  }
  bool guards_whole() const {
    for (const GuardedMemory& m : pinned)
      if (!m.whole()) return false;
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

 private:
  mutable std::set<const Kernel*> loaded_;
};

// A sum, which is under way from when one rank launches it until all have it.
class SumKernel final : public Kernel {
 public:
  SumKernel(std::unique_ptr<Kernel> kernel, std::atomic<int>& under_way) : kernel_(std::move(kernel)), under_way_(under_way) {}
  void bind(std::span<std::byte* const> inputs, std::span<std::byte* const> outputs, std::byte* workspace) override {
    kernel_->bind(inputs, outputs, workspace);
  }
  void launched() { ++under_way_; }
  void run(StreamHandle stream) override {
    struct End {
      std::atomic<int>& under_way;
      ~End() { --under_way; }
    } end{under_way_};
    kernel_->run(stream);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  std::atomic<int>& under_way_;
};

// Sums of an in-process group, or of one over the ranks of a world, that may be recorded.
class FakeGroup final : public CollectiveGroup {
 public:
  FakeGroup(const FakeBackend& backend, std::unique_ptr<CollectiveGroup> group, const GroupSpec& spec)
      : backend_(backend),
        group_(std::move(group)),
        meetings_(spec.first_rank, static_cast<int>(spec.devices.size()), backend.timeout_seconds) {}
  std::unique_ptr<Kernel> make(const ExchangeSpec& spec, int rank) override {
    meetings_.of(spec);
    return std::make_unique<SumKernel>(group_->make(spec, rank), backend_.sums_under_way);
  }
  void abort(const std::string& reason) override {
    meetings_.abort(reason);
    group_->abort(reason);
  }
  bool captures() const override { return backend_.captures_sums; }
  void begin_step(int) override { backend_.summed_steps += backend_.captures_sums; }
  void meet(int channel, int rank) override { meetings_.meet(channel, rank); }

 private:
  const FakeBackend& backend_;
  std::unique_ptr<CollectiveGroup> group_;
  Meetings meetings_;
};

inline std::unique_ptr<CollectiveGroup> FakeBackend::create_group(const GroupSpec& spec) const {
  auto group = spec.world ? Backend::create_group(spec) : in_process_group(static_cast<int>(spec.devices.size()), timeout_seconds);
  return std::make_unique<FakeGroup>(*this, std::move(group), spec);
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

// What is queued while a capture lasts is kept for later instead of run.
struct Queued {
  Kernel* kernel = nullptr;  // null: a copy
  Transfer transfer = Transfer::in;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::int64_t bytes = 0;
};
struct Capture {
  bool open = false;
  std::vector<Queued> queued;
};
// As CUDA has it: a copy from or to memory of the host that was not allocated for that waits for the stream, and cannot be captured
// for good; a kernel is loaded when it is launched for the first time.
class CapturingStream final : public Stream {
 public:
  CapturingStream(std::unique_ptr<Stream> stream, const FakeBackend& backend, Capture& capture)
      : stream_(std::move(stream)),
        backend_(backend),
        capture_(capture),
        in_(backend, Transfer::in),
        out_(backend, Transfer::out),
        on_device_(backend, Transfer::on_device) {}
  void launch(Kernel& kernel) override {
    if (capture_.open) return capture_.queued.push_back({.kernel = &kernel});
    if (auto* sum = dynamic_cast<SumKernel*>(&kernel))
      sum->launched();  // NCCL loads its kernels when a communicator is made
    else
      backend_.load(kernel);
    stream_->launch(kernel);
  }
  void copy_in(std::byte* device, const std::byte* host, std::int64_t bytes) override {
    transfer({nullptr, Transfer::in, device, host, bytes});
  }
  void copy_out(std::byte* host, const std::byte* device, std::int64_t bytes) override {
    transfer({nullptr, Transfer::out, host, device, bytes});
  }
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) override {
    transfer({nullptr, Transfer::on_device, to, from, bytes});
  }
  void fill(std::byte* device, std::byte value, std::int64_t bytes) override {
    if (capture_.open) fail(ExitCode::device, "fill during a capture");
    stream_->fill(device, value, bytes);
  }
  void record(Event& event) override { capture_.open ? void() : stream_->record(event); }
  void wait(Event& event) override { capture_.open ? void() : stream_->wait(event); }
  void synchronize() override {
    if (capture_.open) fail(ExitCode::device, "synchronize during a capture");
    stream_->synchronize();
  }
  void perform(const Queued& q) { q.kernel ? launch(*q.kernel) : transfer(q); }

 private:
  void transfer(const Queued& q) {
    const bool pinned = q.transfer == Transfer::on_device || backend_.is_pinned(q.transfer == Transfer::in ? q.from : q.to);
    if (capture_.open) {
      if (!pinned) fail(ExitCode::device, "a copy of pageable memory during a capture");
      return capture_.queued.push_back(q);
    }
    stream_->launch(q.transfer == Transfer::in ? in_ : q.transfer == Transfer::out ? out_ : on_device_);
    stream_->copy(q.to, q.from, q.bytes);
    if (q.transfer == Transfer::in) backend_.bytes_in += q.bytes;
    if (!pinned) stream_->synchronize();
  }
  std::unique_ptr<Stream> stream_;
  const FakeBackend& backend_;
  Capture& capture_;
  TransferKernel in_, out_, on_device_;
};
class FakeGraph final : public CapturedGraph {
 public:
  FakeGraph(std::vector<Queued> queued, std::atomic<int>& replays) : queued_(std::move(queued)), replays_(replays) {}
  void launch(Stream& stream) override {
    for (const Queued& q : queued_) static_cast<CapturingStream&>(stream).perform(q);
    ++replays_;
  }

 private:
  std::vector<Queued> queued_;
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
  std::byte* allocate_host(std::int64_t bytes) override {
    const std::scoped_lock hold(backend_.lock);
    return backend_.pinned.emplace_back(bytes).data();
  }
  std::unique_ptr<Stream> create_stream(int index) override {
    return std::make_unique<CapturingStream>(index == 0 && !backend_.queues ? inline_stream() : queue_stream({}), backend_, capture_);
  }
  std::unique_ptr<Event> create_event() override { return cpu_event(); }
  bool runs_ahead() const override { return backend_.queues || backend_.captures; }
  bool can_capture() const override { return backend_.captures; }
  void begin_capture(Stream&) override { capture_.open = true; }
  std::unique_ptr<CapturedGraph> end_capture(Stream&) override {
    capture_.open = false;
    if (backend_.capture_fails) fail(ExitCode::device, "the capture failed");
    return std::make_unique<FakeGraph>(std::exchange(capture_.queued, {}), backend_.replays);
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
