#include "base/cores.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace tandem {
namespace {

std::vector<int> affinity() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int i = 0; i < CPU_SETSIZE; ++i)
      if (CPU_ISSET(static_cast<std::size_t>(i), &set)) cores.push_back(i);
  if (cores.empty())
    for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) cores.push_back(static_cast<int>(i));
  return cores;
}

}  // namespace

std::vector<int> usable_cores() {
  static const std::vector<int> cores = affinity();  // before any thread is bound to some of them
  return cores;
}

}  // namespace tandem
