#include "cli/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <csignal>

namespace tandem {
namespace {

std::atomic<int> received = 0;  // a signal handler has nothing else to write to
static_assert(std::atomic<int>::is_always_lock_free);

void handle(int signal) {
  if (received != 0) ::_exit(128 + signal);
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
