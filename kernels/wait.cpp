// Linux's futex: std::atomic::wait has no timeout.
#include "kernels/wait.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <thread>

#include "base/cores.h"

namespace tandem {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

int flags_for(Waiters of) { return of == Waiters::this_process ? FUTEX_PRIVATE_FLAG : 0; }

}  // namespace

bool wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t value, int spins, double timeout_seconds, Waiters of) {
  for (int i = 0; i < spins; ++i) {
    if (word.load(std::memory_order_acquire) != value) return true;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  const double deadline = timeout_seconds > 0 ? now() + timeout_seconds : 0;
  while (word.load(std::memory_order_acquire) == value) {
    timespec rest{};
    if (deadline > 0) {
      const double left = std::min(deadline - now(), 1e9);
      if (left <= 0) return false;
      rest.tv_sec = static_cast<time_t>(left);
      rest.tv_nsec = static_cast<long>((left - static_cast<double>(rest.tv_sec)) * 1e9);
    }
    syscall(SYS_futex, &word, FUTEX_WAIT | flags_for(of), value, deadline > 0 ? &rest : nullptr, nullptr, 0);
  }
  return true;
}

void wake_all(std::atomic<std::uint32_t>& word, Waiters of) {
  syscall(SYS_futex, &word, FUTEX_WAKE | flags_for(of), INT_MAX, nullptr, nullptr, 0);
}

int spins_for(int threads, Waiters of) {
  const std::size_t cores = of == Waiters::this_process ? usable_cores().size() : std::thread::hardware_concurrency();
  return threads <= static_cast<int>(cores) ? 2000 : 0;
}

}  // namespace tandem
