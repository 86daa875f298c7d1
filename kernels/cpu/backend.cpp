// What the CPU tells the planner of itself, its kernels by description, and how they are timed: with cold caches, in a team of
// threads of its own.
#include "kernels/cpu/backend.h"

#include <fcntl.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <future>
#include <limits>
#include <optional>
#include <utility>

#include "base/cores.h"
#include "graph/half.h"
#include "kernels/cpu/device.h"
#include "kernels/cpu/fusions.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/machine.h"
#include "kernels/cpu/onednn/primitive.h"
#include "kernels/cpu/peak.h"
#include "kernels/timed_operands.h"

namespace tandem {
namespace {

// FLOP per cycle of one core: lanes of float32 × two multiply-add units × 2.
struct IsaRate {
  Isa isa;
  double flops_per_cycle;
};
constexpr IsaRate isa_rates[] = {{Isa::baseline, 8}, {Isa::avx2, 32}, {Isa::avx512, 64}};
constexpr double cycles_per_second = 3.5e9;
constexpr double core_bandwidth = 20e9, machine_bandwidth = 200e9;

double flops_per_cycle() {
  for (const IsaRate& row : isa_rates)
    if (row.isa == machine_isa()) return row.flops_per_cycle;
  return isa_rates[0].flops_per_cycle;
}

// Fills an operand with what every kernel accepts: numbers in [0.5, 1.5), mixed masks, and integers that were asked for.
void fill_scratch(std::byte* memory, const Operand& operand, const TimedIntegers& integers = {}) {
  const auto bytes = static_cast<std::size_t>(operand.bytes());
  const auto fill = [&]<class T>(const auto& value_of) {  // of a number from 0 to 1
    constexpr std::size_t different = 4096;  // and these over and over
    T* const values = reinterpret_cast<T*>(memory);
    const std::size_t n = bytes / sizeof(T);
    std::uint32_t state = 12345;
    for (std::size_t i = 0; i < std::min(n, different); ++i) {
      state = state * 1664525u + 1013904223u;
      values[i] = value_of(state * 0x1p-32);
    }
    for (std::size_t done = different; done < n; done *= 2) std::memcpy(values + done, values, std::min(done, n - done) * sizeof(T));
  };
  const auto numbers = [&]<class T>() { fill.template operator()<T>([](double share) { return number_as<T>(0.5 + share); }); };
  const auto whole = [&]<class T>() {
    const auto count = static_cast<double>(integers.most - integers.least + 1);
    fill.template operator()<T>([&](double share) { return static_cast<T>(integers.least + static_cast<std::int64_t>(share * count)); });
  };
  switch (operand.dtype) {
    case DType::float32: numbers.operator()<float>(); break;
    case DType::float64: numbers.operator()<double>(); break;
    case DType::bfloat16: numbers.operator()<BFloat16>(); break;
    case DType::boolean: fill.operator()<std::uint8_t>([](double share) { return static_cast<std::uint8_t>(share < 0.5); }); break;
    case DType::int32: whole.operator()<std::int32_t>(); break;
    case DType::int64: whole.operator()<std::int64_t>(); break;
    default: std::memset(memory, 0, bytes);
  }
  if (may_be_scalars(operand)) reinterpret_cast<StepScalars*>(memory)->skip = 0;
}

// Bytes that push everything else out of the caches.
std::int64_t cache_bytes() {
  constexpr std::int64_t least = 8 << 20, most = 32 << 20;  // of the share that cores have in common
  return std::clamp<std::int64_t>(sysconf(_SC_LEVEL3_CACHE_SIZE), least, most);
}

// A step comes back to an operand only after all its other kernels: what counts is a kernel's time with cold caches. With
// warm ones, padded layouts and reorders look three to ten times cheaper than they are.
void empty_caches(const std::byte* memory, std::int64_t bytes) {
  std::int64_t sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(static)
  for (std::int64_t i = 0; i < bytes; i += 64) sum += static_cast<std::int64_t>(memory[i]);
  [[maybe_unused]] static volatile std::int64_t read;
  read = sum;
}

// How often threads of this process were taken off a core.
long preemptions() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

// The threads of the calling thread's OpenMP team, and what the system tells of them.
class Team {
 public:
  Team() {
#pragma omp parallel
#pragma omp critical
    {
      clockid_t clock{};
      if (pthread_getcpuclockid(pthread_self(), &clock) == 0) clocks_.push_back(clock);
      const int file = ::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
      if (file >= 0) files_.push_back(file);
    }
    used_.resize(clocks_.size());
  }
  ~Team() {
    for (const int file : files_) ::close(file);
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  void start() {
    for (std::size_t i = 0; i < clocks_.size(); ++i) used_[i] = used(clocks_[i]);
    waited_ = waited();
    preemptions_ = preemptions();
  }
  // Since start() some thread lost its core to another program, or was ready to run and waited for one. A thread that slept and
  // found its core taken lost none. A little is what waking takes.
  bool held_up(double seconds) const {
    constexpr double usual_share = 0.05, usual_seconds = 20e-6;
    return preemptions() != preemptions_ ||
           waited() - waited_ > std::max(usual_seconds, usual_share * seconds) * static_cast<double>(clocks_.size());
  }
  // Seconds of a core since start(), of the thread that used most: about what a run would have taken undisturbed.
  double busiest() const {
    double most = 0;
    for (std::size_t i = 0; i < clocks_.size(); ++i) most = std::max(most, used(clocks_[i]) - used_[i]);
    return most;
  }

 private:
  static double used(clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }
  // Seconds that the threads waited for a core, all together; 0 where the system does not tell.
  double waited() const {
    double sum = 0;
    for (const int file : files_) {
      std::array<char, 96> text{};  // seconds run, seconds waited, both in ns, and a count
      const ssize_t n = ::pread(file, text.data(), text.size(), 0);
      const char* const end = text.data() + std::max<ssize_t>(n, 0);
      const char* const space = std::find(std::as_const(text).data(), end, ' ');
      std::int64_t ns = 0;
      if (space != end && std::from_chars(space + 1, end, ns).ec == std::errc{}) sum += 1e-9 * static_cast<double>(ns);
    }
    return sum;
  }
  std::vector<clockid_t> clocks_;
  std::vector<int> files_;
  std::vector<double> used_;
  double waited_ = 0;
  long preemptions_ = 0;
};

// A bound kernel with cold caches: the shortest time, of runs in which no thread of the team was held up by another program,
// as a team that waits for such a thread waits for its whole time slice. Where there are none, the cores' time of all.
Timing shortest_time(Kernel& kernel, const std::byte* elsewhere, std::int64_t others) {
  constexpr int least_runs = 3, enough_runs = 10, most_runs = 40;
  constexpr double enough_seconds = 0.005, most_seconds = 0.3, none = std::numeric_limits<double>::max();
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); };
  Team team;
  kernel.run({});
  double best = none, best_disturbed = none, undisturbed = 0;
  int good = 0;
  const auto begin = Clock::now();
  for (int run = 0; run == 0 || (run < most_runs && seconds_since(begin) < most_seconds); ++run) {
    if (good >= enough_runs || (good >= least_runs && undisturbed >= enough_seconds)) break;
    empty_caches(elsewhere, others);
    team.start();
    const auto start = Clock::now();
    kernel.run({});
    const double seconds = seconds_since(start);
    if (team.held_up(seconds)) {
      best_disturbed = std::min({best_disturbed, seconds, std::max(team.busiest(), 1e-9)});
      continue;
    }
    ++good;
    undisturbed += seconds;
    best = std::min(best, seconds);
  }
  return good > 0 ? Timing{best} : Timing{best_disturbed, true};
}

}  // namespace

const Backend& cpu_backend() {
  static const CpuBackend backend;
  return backend;
}

namespace {

std::string library_version() {
  const dnnl_version_t* v = dnnl_version();
  return concat("oneDNN ", v->major, '.', v->minor, '.', v->patch);
}

}  // namespace

std::string CpuBackend::version() const { return concat(library_version(), ", ", name_of(machine_isa()), ", ", cpu_name()); }
std::string CpuBackend::computes_by() const {
  return concat(library_version(), " with ", onednn_isa(), ", vectors by ", name_of(machine_isa()));
}

// bf16 without the instructions would run, emulated and slower than fp32: that is no use of it.
std::string CpuBackend::declines(Precision precision) const {
  switch (precision) {
    case Precision::fp32: return {};
    case Precision::tf32: return "TF32 is a format of NVIDIA's tensor cores, a CPU has none: use fp32";
    case Precision::bf16:
    case Precision::fp8:  // whose 8-bit products are computed in bf16
      return onednn::has_bf16() ? ""
                                : concat(precision, " needs AVX512_BF16 or AMX-BF16, and ", cpu_name(),
                                         " has neither or oneDNN may not use it (it uses ", onednn_isa(), ')');
    case Precision::fp16:
      return "tandem trains in float16 on GPUs alone (oneDNN 2 has no training in it, for CPUs with AVX512_FP16 or without): use bf16 or "
             "fp32";
  }
  return {};
}

DeviceModel CpuBackend::model(int index, int devices_in_use) const {
  if (index < 0 || index >= device_count())
    fail(ExitCode::device, "cpu:", index, ": there are devices cpu:0 to cpu:", device_count() - 1);
  const int cores = static_cast<int>(usable_cores().size());
  const int devices = std::max(1, devices_in_use);
  DeviceModel m;
  m.threads = team_size(cores / devices);
  m.name = concat(cpu_name(), ", ", m.threads, m.threads == 1 ? " core" : " cores");
  m.memory = total_memory() / devices;
  m.sharing = std::max(1.0, static_cast<double>(devices) / cores);
  const double share = m.threads / m.sharing;
  m.flops = share * flops_per_cycle() * cycles_per_second;
  m.bandwidth = std::min(share * core_bandwidth, machine_bandwidth / devices);
  m.launch_seconds = 2e-6 * m.sharing;
  m.link_bandwidth = core_bandwidth / 2 / m.sharing;
  return m;
}

std::int64_t CpuBackend::free_memory(int, int devices_in_use) const { return available_memory() / std::max(1, devices_in_use); }

std::vector<KernelRow> CpuBackend::rows() const { return rows_of(cpu_kernels()); }

namespace {

// What a plan keeps of a description: its name, operands and layouts, from which the kernel is described again before it
// runs. A library that chose layouts itself may block the work otherwise than for the same layouts given (oneDNN's inner
// product for AMX, which then needs another workspace): what counts is what runs. Null where it declines them.
std::optional<KernelDescription> as_kept(const CpuKernelRow& row, const KernelRequest& request, KernelDescription described) {
  if (request.kernel == described.kernel && request.inputs == described.inputs && request.outputs == described.outputs) return described;
  KernelRequest kept = request;
  kept.inputs = described.inputs;
  kept.outputs = described.outputs;
  kept.kernel = described.kernel;
  for (KernelDescription& d : row.describe(kept))
    if (d.kernel == kept.kernel && d.inputs == kept.inputs && d.outputs == kept.outputs) return std::move(d);
  return std::nullopt;
}

}  // namespace

std::vector<KernelDescription> CpuBackend::describe(const KernelRequest& request) const {
  std::vector<KernelDescription> all;
  const bool countable = onednn::countable(request);
  for (const CpuKernelRow& row : cpu_kernels())
    if (row.serves(request.op) && (countable || !row.kernel.starts_with("onednn.")) &&
        (request.kernel.empty() || request.kernel.starts_with(row.kernel)))
      for (KernelDescription& d : row.describe(request))
        if (request.kernel.empty() || request.kernel == d.kernel)
          if (auto kept = as_kept(row, request, std::move(d))) all.push_back(std::move(*kept));
  return all;
}

Gain CpuBackend::fuses(const KernelRequest& request) const { return cpu_fuses(request) ? Gain::yes : Gain::no; }

std::byte* CpuBackend::scratch(std::int64_t bytes) const {
  if (bytes > scratch_bytes_) {
    scratch_memory_ = std::make_unique<CpuDevice>(0, KernelOptions{});
    scratch_ = scratch_memory_->allocate(bytes);
    scratch_bytes_ = bytes;
    // Memory that was never written is one page of zeros: reading it would empty no cache.
    std::memset(scratch_, 1, static_cast<std::size_t>(std::min(bytes, cache_bytes())));
  }
  return scratch_;
}

void CpuBackend::release_scratch() const {
  const std::lock_guard lock(scratch_lock_);
  scratch_memory_.reset();
  scratch_ = nullptr;
  scratch_bytes_ = 0;
}

// In a thread of its own, whose OpenMP team ends with it: a team left behind counts as running, and where teams together
// have more threads than there are cores, OpenMP's threads sleep instead of spin between the kernels of every later step.
Timing CpuBackend::measure(const KernelDescription& description, const KernelOptions& options) const {
  return std::async(std::launch::async, [&] { return time_kernel(description, options); }).get();
}

Timing CpuBackend::time_kernel(const KernelDescription& description, const KernelOptions& options) const {
  flush_subnormals();
  omp_set_num_threads(team_size(options.threads));
  const std::lock_guard lock(scratch_lock_);
  // One block, operand after operand, as in a plan's arena.
  std::int64_t bytes = to_line(description.workspace);
  for (const auto* operands : {&description.inputs, &description.outputs})
    for (const Operand& operand : *operands) bytes += to_line(operand.bytes());
  const std::int64_t others = cache_bytes();
  const std::byte* const elsewhere = scratch(others + bytes);
  std::byte* at = scratch_ + others;
  const auto place = [&](const Operand& operand, const TimedIntegers& integers) {
    std::byte* const address = operand.present() ? at : nullptr;
    fill_scratch(at, operand, integers);
    at += to_line(operand.bytes());
    return address;
  };
  std::vector<std::byte*> inputs, outputs;
  for (std::size_t i = 0; i < description.inputs.size(); ++i)
    inputs.push_back(place(description.inputs[i], timed_integers(description, i).value_or(TimedIntegers{})));
  for (const Operand& operand : description.outputs) outputs.push_back(place(operand, {}));
  const std::unique_ptr<Kernel> kernel = description.make();
  kernel->bind(inputs, outputs, at);
  return shortest_time(*kernel, elsewhere, others);
}

std::unique_ptr<Device> CpuBackend::open(int index, const KernelOptions& options) const {
  if (index < 0 || index >= device_count())
    fail(ExitCode::device, "cpu:", index, ": there are devices cpu:0 to cpu:", device_count() - 1);
  return std::make_unique<CpuDevice>(index, options);
}

}  // namespace tandem
