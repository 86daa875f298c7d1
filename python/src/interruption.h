// Ctrl-C while the library works without the interpreter's lock.
#pragma once
#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

namespace tandem::python {

namespace nb = nanobind;

class Interruption {
 public:
  // Whether the work is to end: asked by the library's threads. That which began it looks for signals, not too often.
  bool asked() {
    if (!stop_ && std::this_thread::get_id() == owner_ && Clock::now() - looked_ > pause) look();
    return stop_;
  }
  // Of the thread that began the work.
  void look() {
    looked_ = Clock::now();
    const nb::gil_scoped_acquire lock;
    if (pending_ || PyErr_CheckSignals() == 0) return;
    pending_.emplace();
    stop_ = true;
  }
  void stop() { stop_ = true; }
  // Throws what a signal's handler raised, with the lock held.
  void raise() {
    if (!pending_) return;
    nb::python_error error = std::move(*pending_);
    pending_.reset();
    throw error;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds pause{50};
  const std::thread::id owner_ = std::this_thread::get_id();
  Clock::time_point looked_ = Clock::now();
  std::atomic<bool> stop_ = false;
  std::optional<nb::python_error> pending_;
};

}  // namespace tandem::python
