// Reads the machine's cores, name and memory from Linux, under the limits that control groups set.
#include "kernels/cpu/machine.h"

#include <omp.h>
#include <pmmintrin.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

namespace tandem {
namespace {

constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

// The number after `key` at the start of a line of `file`; `absent` where there is none.
std::int64_t number_in(const char* file, std::string_view key, std::int64_t absent) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) {
      std::istringstream rest(line.substr(key.size()));
      std::int64_t value = 0;
      if (rest >> value) return value;
    }
  return absent;
}

// Room under a control group's limit, reclaimable page cache counted as free.
std::int64_t group_room(const std::string& folder, const char* limit_file, const char* usage_file, const char* cache_key) {
  const std::int64_t limit = number_in((folder + limit_file).c_str(), "", no_limit);
  if (limit == no_limit) return no_limit;
  const std::int64_t usage = number_in((folder + usage_file).c_str(), "", 0);
  const std::int64_t cache = number_in((folder + "memory.stat").c_str(), cache_key, 0);
  return std::max<std::int64_t>(0, limit - usage + cache);
}

}  // namespace

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "CPU";
}

int team_size(int wanted) {
  return std::clamp(wanted, 1, std::max(1, omp_get_thread_limit()));
}

std::int64_t total_memory() {
  const std::int64_t kib = number_in("/proc/meminfo", "MemTotal:", no_limit / 1024);
  return std::min({kib * 1024, number_in("/sys/fs/cgroup/memory.max", "", no_limit),
                   number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes", "", no_limit)});
}

std::int64_t available_memory() {
  const std::int64_t kib = number_in("/proc/meminfo", "MemAvailable:", no_limit / 1024);
  return std::min({kib * 1024, group_room("/sys/fs/cgroup/", "memory.max", "memory.current", "inactive_file "),
                   group_room("/sys/fs/cgroup/memory/", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ")});
}

void pin_thread(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  sched_setaffinity(0, sizeof set, &set);
}

void flush_subnormals() { _mm_setcsr(_mm_getcsr() | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON); }

}  // namespace tandem
