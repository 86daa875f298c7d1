// Asks the machine itself: load averages lag by a minute and count this process too.
#include "planner/lower/quiet.h"

#include <time.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/cores.h"

namespace tandem {
namespace {

double own_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace

bool machine_is_quiet() {
  constexpr double enough_share = 0.95;
  constexpr std::chrono::milliseconds length{20};  // several time slices
  const std::size_t count = usable_cores().size();
  std::atomic<bool> quiet{true};
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < count; ++i)
    threads.emplace_back([&] {
      using Clock = std::chrono::steady_clock;
      const auto begin = Clock::now();
      const double own = own_seconds();
      Clock::time_point now = begin;
      while (now - begin < length) now = Clock::now();
      if (own_seconds() - own < enough_share * std::chrono::duration<double>(now - begin).count()) quiet = false;
    });
  threads.clear();
  return quiet;
}

}  // namespace tandem
