#include "cli/interrupt.h"

#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>

namespace tandem {
namespace {

constexpr int exit_base = 128;               // plus the signal's number
constexpr std::int64_t apart = 300'000'000;  // nanoseconds
constexpr int patience = 800'000;            // microseconds, of End::soon

// A signal handler has nothing else to write to.
std::atomic<int> received = 0;
std::atomic<std::int64_t> urged_at = 0;  // the first Ctrl-C or SIGTERM
std::atomic<const std::string*> answer = nullptr;
std::atomic<bool> silent = false;
std::atomic<Interrupt::End> end = Interrupt::End::at_once;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free &&
              std::atomic<const std::string*>::is_always_lock_free && std::atomic<Interrupt::End>::is_always_lock_free);

std::int64_t now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

void handle(int signal) {
  if (signal == SIGINT || signal == SIGTERM) {
    std::int64_t first = 0;
    if (!urged_at.compare_exchange_strong(first, now()) && now() - first >= apart) ::_exit(exit_base + signal);
  }
  if (int none = 0; !received.compare_exchange_strong(none, signal)) return;
  const int before = errno;
  if (const std::string* text = silent ? nullptr : answer.load()) [[maybe_unused]]
    const auto ignored = ::write(STDERR_FILENO, text->data(), text->size());
  if (end == Interrupt::End::at_once) ::_exit(exit_base + signal);
  if (end == Interrupt::End::soon) {
    const itimerval timer{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = patience}};
    ::setitimer(ITIMER_REAL, &timer, nullptr);
  }
  errno = before;
}

// The time is over, unless there is something to save by now.
void handle_alarm(int) {
  if (end == Interrupt::End::soon) ::_exit(exit_base + received);
}

}  // namespace

Interrupt::Interrupt() {
  received = 0;
  urged_at = 0;
  answer = nullptr;
  end = End::at_once;
  const auto stand = [this](int signal, void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    Handled h{.signal = signal, .before = {}};
    if (::sigaction(signal, nullptr, &h.before) != 0 || h.before.sa_handler == SIG_IGN || ::sigaction(signal, &action, nullptr) != 0)
      return;
    handled_.push_back(h);
  };
  for (const int signal : ending_signals) stand(signal, handle);
  stand(SIGALRM, handle_alarm);
}

Interrupt::~Interrupt() {
  end = End::at_once;
  answer = nullptr;
  for (const Handled& h : handled_) ::sigaction(h.signal, &h.before, nullptr);
}

void Interrupt::announce(std::string text, End when) {
  answers_.push_back(std::move(text));
  answer = &answers_.back();
  end = when;
}

void Interrupt::be_silent() {
  silent = true;
}

int Interrupt::signal() const {
  return received;
}

}  // namespace tandem
