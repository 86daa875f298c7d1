// A stream is a thread that works off a ring of commands, but for a device's first one, which runs them where they are queued.
#include "kernels/cpu/streams.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "kernels/cpu/machine.h"

namespace tandem {
namespace {

// Each record takes a ticket when it is queued; it is reached when the stream gets there.
class CpuEvent final : public Event {
 public:
  std::uint64_t take_ticket() {
    const std::lock_guard lock(mutex_);
    return ++queued_;
  }
  std::uint64_t last_ticket() {
    const std::lock_guard lock(mutex_);
    return queued_;
  }
  // `failure`: of the work before it, or none.
  void reach(std::uint64_t ticket, const std::exception_ptr& failure = {}) {
    const std::lock_guard lock(mutex_);
    reached_ = std::max(reached_, ticket);
    failure_ = failure;
    changed_.notify_all();  // under the lock: who waits may destroy the event at once
  }
  // What the work before the ticket failed with.
  std::exception_ptr wait_for(std::uint64_t ticket) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reached_ >= ticket; });
    return failure_;
  }
  void synchronize() override {
    if (const std::exception_ptr failure = wait_for(last_ticket())) std::rethrow_exception(failure);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t queued_ = 0, reached_ = 0;
  std::exception_ptr failure_;
};

CpuEvent& cpu(Event& event) { return static_cast<CpuEvent&>(event); }

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

class InlineStream final : public Stream {
 public:
  void launch(Kernel& kernel) override { kernel.run({}); }
  void copy_in(std::byte* device, const std::byte* host, std::int64_t bytes) override { copy_bytes(device, host, bytes); }
  void copy_out(std::byte* host, const std::byte* device, std::int64_t bytes) override { copy_bytes(host, device, bytes); }
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) override { copy_bytes(to, from, bytes); }
  void fill(std::byte* device, std::byte value, std::int64_t bytes) override { std::fill_n(device, bytes, value); }
  void record(Event& event) override { cpu(event).reach(cpu(event).take_ticket()); }
  void wait(Event& event) override { event.synchronize(); }
  void synchronize() override {}
};

struct Command {
  enum Kind { launch, copy, fill, record, wait } kind = launch;
  Kernel* kernel = nullptr;
  CpuEvent* event = nullptr;
  std::uint64_t ticket = 0;
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::int64_t bytes = 0;
  std::byte value{};
};

class QueueStream final : public Stream {
 public:
  explicit QueueStream(std::vector<int> cores) : cores_(std::move(cores)), thread_([this] { work(); }) {}
  ~QueueStream() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void launch(Kernel& kernel) override { push({.kind = Command::launch, .kernel = &kernel}); }
  void copy_in(std::byte* device, const std::byte* host, std::int64_t bytes) override { copy(device, host, bytes); }
  void copy_out(std::byte* host, const std::byte* device, std::int64_t bytes) override { copy(host, device, bytes); }
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes) override {
    push({.kind = Command::copy, .to = to, .from = from, .bytes = bytes});
  }
  void fill(std::byte* device, std::byte value, std::int64_t bytes) override {
    push({.kind = Command::fill, .to = device, .bytes = bytes, .value = value});
  }
  void record(Event& event) override { push({.kind = Command::record, .event = &cpu(event), .ticket = cpu(event).take_ticket()}); }
  void wait(Event& event) override { push({.kind = Command::wait, .event = &cpu(event), .ticket = cpu(event).last_ticket()}); }

  void synchronize() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ == queued_; });
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  void push(const Command& command) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return queued_ - done_ < ring_.size(); });
    ring_[queued_++ % ring_.size()] = command;
    lock.unlock();
    changed_.notify_all();
  }

  void work() {
    flush_subnormals();
    if (!cores_.empty()) pin_thread(cores_);
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopping_ || done_ != queued_; });
      if (done_ == queued_) return;
      const Command command = ring_[done_ % ring_.size()];
      const std::exception_ptr failed = failure_;
      lock.unlock();
      std::exception_ptr failure;
      try {
        perform(command, failed);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      if (failure && !failure_) failure_ = failure;
      ++done_;
      changed_.notify_all();
    }
  }

  static void perform(const Command& command, const std::exception_ptr& failed) {
    switch (command.kind) {
      case Command::launch: return failed ? void() : command.kernel->run({});
      case Command::copy: return failed ? void() : copy_bytes(command.to, command.from, command.bytes);
      case Command::fill: std::fill_n(command.to, failed ? 0 : command.bytes, command.value); return;
      case Command::record: return command.event->reach(command.ticket, failed);
      case Command::wait:
        if (const std::exception_ptr failure = command.event->wait_for(command.ticket)) std::rethrow_exception(failure);
    }
  }

  std::vector<int> cores_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Command, 1024> ring_;
  std::size_t queued_ = 0, done_ = 0;
  bool stopping_ = false;
  std::exception_ptr failure_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<Stream> inline_stream() { return std::make_unique<InlineStream>(); }
std::unique_ptr<Stream> queue_stream(std::vector<int> cores) { return std::make_unique<QueueStream>(std::move(cores)); }
std::unique_ptr<Event> cpu_event() { return std::make_unique<CpuEvent>(); }

}  // namespace tandem
