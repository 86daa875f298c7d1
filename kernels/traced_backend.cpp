#include "kernels/traced_backend.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <limits>
#include <thread>

#include "kernels/collective.h"

namespace tandem {
namespace {

enum class Mark { begin, end };

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Notes when each mark of a stream is reached, in their order.
class Watcher {
 public:
  Watcher(Device& device, std::vector<TracedInterval>& intervals, std::mutex& lock)
      : device_(device), intervals_(intervals), intervals_lock_(lock), thread_([this] { watch(); }) {}
  ~Watcher() {
    {
      const std::scoped_lock hold(lock_);
      ending_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  void mark(Stream& stream, Mark what) {
    std::unique_ptr<Event> event = device_.create_event();
    stream.record(*event);
    const std::scoped_lock hold(lock_);
    waiting_.emplace_back(what, std::move(event));
    changed_.notify_all();
  }
  void settle() {
    std::unique_lock hold(lock_);
    changed_.wait(hold, [&] { return waiting_.empty() && !busy_; });
  }

 private:
  void watch() {
    device_.activate();
    std::unique_lock hold(lock_);
    for (;;) {
      changed_.wait(hold, [&] { return ending_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      auto [what, event] = std::move(waiting_.front());
      waiting_.pop_front();
      busy_ = true;
      hold.unlock();
      event->synchronize();
      note(what, now());
      event.reset();
      hold.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }
  // Of several ends the last counts: a step that is launched kernel by kernel records others before its own.
  void note(Mark what, double time) {
    const std::scoped_lock hold(intervals_lock_);
    if (what == Mark::begin) {
      begun_ = time;
      fresh_ = true;
    } else if (fresh_) {
      intervals_.push_back({begun_, time});
      fresh_ = false;
    } else if (!intervals_.empty()) {
      intervals_.back().end = time;
    }
  }

  Device& device_;
  std::vector<TracedInterval>& intervals_;
  std::mutex& intervals_lock_;
  double begun_ = 0;
  bool fresh_ = false;  // an interval has begun
  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<std::pair<Mark, std::unique_ptr<Event>>> waiting_;
  bool ending_ = false, busy_ = false;
  std::thread thread_;
};

}  // namespace

struct TracedBackend::Recording {
  std::atomic<bool> on = false;
  std::mutex lock;
  Trace trace;
  std::mutex watchers_lock;
  std::vector<Watcher*> watchers;
};

namespace {

// What the streams of a device share. A copy begins when the stream that copies has waited for the step before to take its batch,
// and the step begins when it has.
struct Tracing {
  std::atomic<bool>& on;
  Watcher copies, steps;
  std::atomic<const Event*> taken = nullptr;
  bool capturing = false;
};

class TracedStream final : public Stream {
 public:
  TracedStream(std::unique_ptr<Stream> stream, int index, Tracing& tracing)
      : stream_(std::move(stream)), index_(index), tracing_(tracing) {}
  Stream& inner() { return *stream_; }
  void launch(Kernel& kernel) override { stream_->launch(kernel); }
  void copy_in(std::byte* device, const std::byte* host, std::int64_t bytes) override { stream_->copy_in(device, host, bytes); }
  void copy_out(std::byte* host, const std::byte* device, std::int64_t bytes) override { stream_->copy_out(host, device, bytes); }
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) override { stream_->copy(to, from, bytes); }
  void fill(std::byte* device, std::byte value, std::int64_t bytes) override { stream_->fill(device, value, bytes); }
  void synchronize() override { stream_->synchronize(); }
  void wait(Event& event) override {
    stream_->wait(event);
    if (index_ != copy_stream) return;
    tracing_.taken = &event;
    if (traces()) tracing_.copies.mark(*stream_, Mark::begin);
  }
  void record(Event& event) override {
    stream_->record(event);
    if (!traces()) return;
    if (index_ == copy_stream) tracing_.copies.mark(*stream_, Mark::end);
    if (index_ == compute_stream) tracing_.steps.mark(*stream_, &event == tracing_.taken ? Mark::begin : Mark::end);
  }

 private:
  bool traces() const { return tracing_.on && !tracing_.capturing; }
  std::unique_ptr<Stream> stream_;
  const int index_;
  Tracing& tracing_;
};

class TracedGraph final : public CapturedGraph {
 public:
  explicit TracedGraph(std::unique_ptr<CapturedGraph> graph) : graph_(std::move(graph)) {}
  void launch(Stream& stream) override { graph_->launch(static_cast<TracedStream&>(stream).inner()); }

 private:
  std::unique_ptr<CapturedGraph> graph_;
};

class TracedDevice final : public Device {
 public:
  TracedDevice(std::unique_ptr<Device> device, std::atomic<bool>& on, Trace& trace, std::mutex& lock)
      : device_(std::move(device)), tracing_{on, {*device_, trace.copies, lock}, {*device_, trace.steps, lock}} {}
  Watcher& copies() { return tracing_.copies; }
  Watcher& steps() { return tracing_.steps; }
  void activate() override { device_->activate(); }
  std::byte* allocate(std::int64_t bytes) override { return device_->allocate(bytes); }
  std::byte* allocate_summed(std::int64_t bytes) override { return device_->allocate_summed(bytes); }
  std::byte* allocate_host(std::int64_t bytes) override { return device_->allocate_host(bytes); }
  std::unique_ptr<Stream> create_stream(int index) override {
    return std::make_unique<TracedStream>(device_->create_stream(index), index, tracing_);
  }
  std::unique_ptr<Event> create_event() override { return device_->create_event(); }
  bool runs_ahead() const override { return device_->runs_ahead(); }
  bool can_capture() const override { return device_->can_capture(); }
  void begin_capture(Stream& stream) override {
    tracing_.capturing = true;
    device_->begin_capture(static_cast<TracedStream&>(stream).inner());
  }
  std::unique_ptr<CapturedGraph> end_capture(Stream& stream) override {
    tracing_.capturing = false;
    return std::make_unique<TracedGraph>(device_->end_capture(static_cast<TracedStream&>(stream).inner()));
  }

 private:
  std::unique_ptr<Device> device_;
  Tracing tracing_;
};

}  // namespace

TracedBackend::TracedBackend(const Backend& backend) : backend_(backend), recording_(std::make_unique<Recording>()) {}
TracedBackend::~TracedBackend() = default;

void TracedBackend::start() const {
  const std::scoped_lock hold(recording_->lock);
  recording_->trace = {};
  recording_->on = true;
}

Trace TracedBackend::stop() const {
  recording_->on = false;
  {
    const std::scoped_lock hold(recording_->watchers_lock);
    for (Watcher* w : recording_->watchers) w->settle();
  }
  const std::scoped_lock hold(recording_->lock);
  return recording_->trace;
}

std::unique_ptr<Device> TracedBackend::open(int index, const KernelOptions& options) const {
  auto device = std::make_unique<TracedDevice>(backend_.open(index, options), recording_->on, recording_->trace, recording_->lock);
  const std::scoped_lock hold(recording_->watchers_lock);
  recording_->watchers.insert(recording_->watchers.end(), {&device->copies(), &device->steps()});
  return device;
}

double overlap(const Trace& trace, std::size_t skipped) {
  double copied = 0, within = 0;
  for (std::size_t c = skipped; c + 1 < trace.copies.size(); ++c) {
    copied += trace.copies[c].end - trace.copies[c].begin;
    for (const TracedInterval& step : trace.steps)
      within += std::max(0.0, std::min(step.end, trace.copies[c].end) - std::max(step.begin, trace.copies[c].begin));
  }
  return copied > 0 ? within / copied : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace tandem
