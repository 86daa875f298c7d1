// Opens a share of the cores: pins its threads and takes its arenas from the system.
#include "kernels/cpu/device.h"

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "base/cores.h"
#include "kernels/cpu/machine.h"
#include "kernels/cpu/streams.h"

namespace tandem {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t huge_page = std::size_t{2} << 20;

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

}  // namespace

// Device i takes cores [i·threads, (i+1)·threads) of all, node by node. TANDEM_PIN=0 leaves all threads to the scheduler.
CpuDevice::CpuDevice(int index, const KernelOptions& options) : index_(index), threads_(team_size(options.threads)) {
  const std::vector<int> usable = usable_cores();
  nodes_ = numa_nodes(usable);
  const char* pin = std::getenv("TANDEM_PIN");
  if (pin && std::string_view(pin) == "0") return;
  const std::vector<int> cores = in_order_of_nodes(usable, nodes_);
  const std::size_t first = static_cast<std::size_t>(index_) * static_cast<std::size_t>(threads_);
  const std::size_t last = first + static_cast<std::size_t>(threads_);
  if (last > cores.size()) return;
  cores_.assign(cores.begin() + static_cast<std::ptrdiff_t>(first), cores.begin() + static_cast<std::ptrdiff_t>(last));
  std::erase_if(nodes_, [&](const NumaNode& node) {
    return std::none_of(node.cores.begin(), node.cores.end(), [&](int core) { return std::count(cores_.begin(), cores_.end(), core) > 0; });
  });
}

CpuDevice::~CpuDevice() {
  for (const auto& [address, bytes] : mappings_) munmap(address, bytes);
}

void CpuDevice::activate() {
  flush_subnormals();
  omp_set_num_threads(threads_);
  if (!cores_.empty()) pin_thread(cores_);
}

// Large arenas start on a huge page and use huge pages for their whole ones only, so that no more than what was asked
// for (rounded up to a page) ever becomes resident.
std::byte* CpuDevice::allocate(std::int64_t bytes) {
  if (bytes < 0) fail(ExitCode::device, "cpu:", index_, ": asked for ", bytes, " bytes");
  const std::int64_t room = available_memory();
  if (bytes > room) fail(ExitCode::device, "cpu:", index_, ": needs ", bytes, " bytes of memory, ", room, " are available");
  const std::size_t size = round_up(std::max<std::size_t>(static_cast<std::size_t>(bytes), 1), page);
  const bool huge = size >= huge_page;
  const std::size_t mapped = huge ? size + huge_page : size;
  void* const raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) fail(ExitCode::device, "cpu:", index_, ": the system refuses ", bytes, " bytes of memory");
  mappings_.push_back({raw, mapped});
  place_memory(raw, mapped, nodes_);
  if (!huge) return static_cast<std::byte*>(raw);
  const auto address = round_up(reinterpret_cast<std::size_t>(raw), huge_page);
  auto* const start = reinterpret_cast<std::byte*>(address);
  madvise(start, size / huge_page * huge_page, MADV_HUGEPAGE);
  return start;
}

std::unique_ptr<Stream> CpuDevice::create_stream(int index) {
  // Communication takes any core that is idle, not one from the device's own computation.
  return index == 0 ? inline_stream() : queue_stream(cores_.empty() ? std::vector<int>{} : usable_cores());
}

std::unique_ptr<Event> CpuDevice::create_event() { return cpu_event(); }

}  // namespace tandem
