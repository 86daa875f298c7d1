#include "cli/interrupt.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>

namespace tandem {
namespace {

constexpr int exit_base = 128;               // plus the signal's number
constexpr std::int64_t apart = 300'000'000;  // nanoseconds

std::atomic<int> received = 0;  // a signal handler has nothing else to write to
std::atomic<std::int64_t> received_at = 0;
std::atomic<const std::string*> answer = nullptr;
std::atomic<bool> ends_at_once = false;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free && std::atomic<const std::string*>::is_always_lock_free);

std::int64_t now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

void handle(int signal) {
  if (received != 0) {
    if (now() - received_at >= apart) ::_exit(exit_base + signal);
    return;
  }
  received_at = now();
  received = signal;
  const int before = errno;
  if (const std::string* text = answer) [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, text->data(), text->size());
  if (ends_at_once) ::_exit(exit_base + signal);
  errno = before;
}

}  // namespace

Interrupt::Interrupt() {
  received = 0;
  answer = nullptr;
  ends_at_once = false;
  before_interrupt_ = std::signal(SIGINT, handle);
  before_terminate_ = std::signal(SIGTERM, handle);
}

Interrupt::~Interrupt() {
  std::signal(SIGINT, before_interrupt_);
  std::signal(SIGTERM, before_terminate_);
  answer = nullptr;
}

void Interrupt::announce(std::string text, bool at_once) {
  answers_.push_back(std::move(text));
  answer = &answers_.back();
  ends_at_once = at_once;
}

int Interrupt::signal() const {
  return received;
}

}  // namespace tandem
