// The loops are written as instructions: a compiler keeps accumulators in memory where it likes to, and folds what it can.
#include "kernels/cpu/peak.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <future>
#include <limits>
#include <memory>

#ifdef TANDEM_X86
#include <sys/syscall.h>
#endif

#include "base/cores.h"
#include "kernels/cpu/features.h"
#include "kernels/cpu/machine.h"

namespace tandem {
namespace {

struct Loop {
  std::string_view format, instructions;
  double flops;  // of one turn
  CpuFeatures needs;
  void (*run)(std::int64_t turns);
};

#ifdef TANDEM_X86
// Linux lets a process use the tiles' registers where it asks for that.
bool may_use_tiles() {
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool granted = syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  return granted;
}
bool usable(const CpuFeatures& needs) { return cpu_features().has(needs) && (!needs.has(Feature::amx_tile) || may_use_tiles()); }

constexpr CpuFeatures avx2{Feature::avx2, Feature::fma},
    avx512{Feature::avx512f, Feature::avx512bw, Feature::avx512dq, Feature::avx512vl},
    avx512_bf16{Feature::avx512f, Feature::avx512bw, Feature::avx512_bf16}, amx_bf16{Feature::amx_tile, Feature::amx_bf16};

// Fourteen sums: more than latency times units of any CPU so far, and the operands fit into the other two registers.
#define TANDEM_REGISTERS "0,1,2,3,4,5,6,7,8,9,10,11,12,13"
#define TANDEM_CLOBBERED                                                                                                        \
  "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
// `instruction` with the operands 14 and 15 and each of the sums, all zero.
#define TANDEM_LOOP(instruction, registers)                                                                             \
  asm volatile("vzeroall\n1:\n.irp r," TANDEM_REGISTERS "\n" instruction " %%" registers "14,%%" registers "15,%%" registers \
               "\\r\n.endr\ndec %0\njnz 1b\nvzeroupper"                                                                  \
               : "+r"(turns)::TANDEM_CLOBBERED)
constexpr double sums = 14;

void fma_256(std::int64_t turns) { TANDEM_LOOP("vfmadd231ps", "ymm"); }
void fma_512(std::int64_t turns) { TANDEM_LOOP("vfmadd231ps", "zmm"); }
void dot_512(std::int64_t turns) { TANDEM_LOOP("vdpbf16ps", "zmm"); }

// Four tiles of sums, two of each operand, as a matrix product has them.
void tiles(std::int64_t turns) {
  struct alignas(64) {
    std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } configuration;
  asm volatile("ldtilecfg %0\ntilezero %%tmm4\ntilezero %%tmm5\ntilezero %%tmm6\ntilezero %%tmm7" ::"m"(configuration));
  asm volatile("tilezero %%tmm0\ntilezero %%tmm1\ntilezero %%tmm2\ntilezero %%tmm3\n1:\n"
               "tdpbf16ps %%tmm6,%%tmm4,%%tmm0\ntdpbf16ps %%tmm7,%%tmm4,%%tmm1\n"
               "tdpbf16ps %%tmm6,%%tmm5,%%tmm2\ntdpbf16ps %%tmm7,%%tmm5,%%tmm3\n"
               "dec %0\njnz 1b\ntilerelease"
               : "+r"(turns)::"cc");
}

constexpr Loop loops[] = {
    {"fp32", "AVX-512", sums * 16 * 2, avx512, fma_512},
    {"fp32", "AVX2", sums * 8 * 2, avx2, fma_256},
    {"bf16", "AMX-BF16", 4.0 * 16 * 16 * 32 * 2, amx_bf16, tiles},
    {"bf16", "AVX512_BF16", sums * 32 * 2, avx512_bf16, dot_512},
};
struct KnownSet {
  std::string_view name;
  CpuFeatures needs;
};
constexpr KnownSet known_sets[] = {
    {"AVX2", avx2},
    {"AVX-512", avx512},
    {"AVX512_BF16", avx512_bf16},
    {"AVX512_FP16", {Feature::avx512f, Feature::avx512bw, Feature::avx512_fp16}},
    {"AMX-TILE", {Feature::amx_tile}},
    {"AMX-BF16", amx_bf16},
    {"AMX-INT8", {Feature::amx_tile, Feature::amx_int8}},
};
#else
// What the compiler has for any CPU: sixteen vectors of four.
void multiply_adds(std::int64_t turns) {
  typedef float Vector __attribute__((vector_size(16)));
  Vector sum[16] = {};
  Vector a = {1, 1, 1, 1};
  for (; turns > 0; --turns) {
    asm volatile("" : "+m"(a));
#pragma GCC unroll 16
    for (Vector& s : sum) s += a * a;
  }
  for (Vector& s : sum) asm volatile("" ::"m"(s));
}
constexpr Loop loops[] = {{"fp32", "baseline", 16.0 * 4 * 2, {}, multiply_adds}};
bool usable(const CpuFeatures&) { return true; }
#endif

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Seconds of the best run of some, by a clock.
template <class Run, class Clock>
double shortest(int runs, const Clock& clock, const Run& run) {
  double best = std::numeric_limits<double>::max();
  for (int i = 0; i < runs; ++i) {
    const double begin = clock();
    run();
    best = std::min(best, clock() - begin);
  }
  return best;
}

double flops_of(const Loop& loop, int threads) {
  constexpr double enough_seconds = 0.002;
  constexpr int runs = 8;
  std::int64_t turns = 1;
  while (shortest(1, thread_seconds, [&] { loop.run(turns); }) < enough_seconds) turns *= 2;
  double rate = 0;
#pragma omp parallel num_threads(threads) reduction(+ : rate)  // at once: all cores together may run slower than one
  rate += static_cast<double>(turns) / shortest(runs, thread_seconds, [&] { loop.run(turns); });
  return rate * loop.flops;
}

// As CpuBackend::measure: an OpenMP team that is left behind makes later ones sleep.
template <class Measure>
auto in_a_thread(const Measure& measure) {
  return std::async(std::launch::async, measure).get();
}

}  // namespace

std::vector<std::string_view> instruction_sets() {
  std::vector<std::string_view> names;
#ifdef TANDEM_X86
  for (const KnownSet& set : known_sets)
    if (usable(set.needs)) names.push_back(set.name);
#endif
  return names;
}

std::vector<Peak> measure_peaks() {
  return in_a_thread([] {
    const int threads = team_size(static_cast<int>(usable_cores().size()));
    std::vector<Peak> peaks;
    for (const Loop& loop : loops)
      if (usable(loop.needs)) peaks.push_back({loop.format, loop.instructions, flops_of(loop, threads)});
    return peaks;
  });
}

double measure_bandwidth() {
  return in_a_thread([] {
    constexpr std::int64_t least = 64 << 20, most = 512 << 20;  // bytes of all three arrays
    constexpr int runs = 5;
    const std::int64_t wanted = std::clamp<std::int64_t>(2 * sysconf(_SC_LEVEL3_CACHE_SIZE), least, most);
    const std::int64_t n =
        std::min(wanted, std::max<std::int64_t>(available_memory() / 4, 1 << 20)) / 3 / static_cast<std::int64_t>(sizeof(float));
    const int threads = team_size(static_cast<int>(usable_cores().size()));
    const auto memory = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(3 * n));
    float *const a = memory.get(), *const b = a + n, *const c = b + n;
#pragma omp parallel for schedule(static) num_threads(threads)  // by whom it is used: that is where its pages lie
    for (std::int64_t i = 0; i < n; ++i) a[i] = b[i] = c[i] = 1;
    const double seconds = shortest(runs, omp_get_wtime, [&] {
#pragma omp parallel for simd schedule(static) num_threads(threads)
      for (std::int64_t i = 0; i < n; ++i) a[i] = b[i] + 3 * c[i];
    });
    return 3.0 * sizeof(float) * static_cast<double>(n) / seconds;
  });
}

}  // namespace tandem
