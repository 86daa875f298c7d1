#include "cli/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <ctime>

namespace tandem {
namespace {

constexpr std::int64_t apart = 1'000'000'000;  // nanoseconds

std::atomic<int> received = 0;  // a signal handler has nothing else to write to
std::atomic<std::int64_t> received_at = 0;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

std::int64_t now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

void handle(int signal) {
  if (received != 0) {
    if (now() - received_at >= apart) ::_exit(128 + signal);
    return;
  }
  received_at = now();
  received = signal;
}

}  // namespace

Interrupt::Interrupt() {
  received = 0;
  before_interrupt_ = std::signal(SIGINT, handle);
  before_terminate_ = std::signal(SIGTERM, handle);
}

Interrupt::~Interrupt() {
  std::signal(SIGINT, before_interrupt_);
  std::signal(SIGTERM, before_terminate_);
}

int Interrupt::signal() const {
  return received;
}

}  // namespace tandem
