#include "kernels/cpu/features.h"

#include <cstdlib>

#ifdef TANDEM_X86
#include <cpuid.h>
#endif

#include "base/spec.h"

namespace tandem {
namespace {

// The registers a feature's instructions use, as bits of XCR0: of SSE and AVX; and of AVX-512's masks and halves; and of tiles.
constexpr std::uint64_t vectors = 0x6, long_vectors = vectors | 0xe0, tiles = 0x60000;

struct Row {
  Feature feature;
  std::string_view name;
  std::uint32_t Cpuid::* answer;
  int bit;
  std::uint64_t registers;
};
// Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, CPUID; volume 1, 13.3.
constexpr Row rows[] = {
    {Feature::avx2, "AVX2", &Cpuid::leaf7_b, 5, vectors},
    {Feature::fma, "FMA", &Cpuid::leaf1_c, 12, vectors},
    {Feature::avx_vnni, "AVX-VNNI", &Cpuid::leaf7_1_a, 4, vectors},
    {Feature::avx512f, "AVX512F", &Cpuid::leaf7_b, 16, long_vectors},
    {Feature::avx512bw, "AVX512BW", &Cpuid::leaf7_b, 30, long_vectors},
    {Feature::avx512dq, "AVX512DQ", &Cpuid::leaf7_b, 17, long_vectors},
    {Feature::avx512vl, "AVX512VL", &Cpuid::leaf7_b, 31, long_vectors},
    {Feature::avx512_vnni, "AVX512_VNNI", &Cpuid::leaf7_c, 11, long_vectors},
    {Feature::avx512_bf16, "AVX512_BF16", &Cpuid::leaf7_1_a, 5, long_vectors},
    {Feature::avx512_fp16, "AVX512_FP16", &Cpuid::leaf7_d, 23, long_vectors},
    {Feature::amx_tile, "AMX-TILE", &Cpuid::leaf7_d, 24, tiles},
    {Feature::amx_bf16, "AMX-BF16", &Cpuid::leaf7_d, 22, tiles},
    {Feature::amx_int8, "AMX-INT8", &Cpuid::leaf7_d, 25, tiles},
};

#ifdef TANDEM_X86
Cpuid ask() {
  Cpuid answers;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return answers;
  answers.leaf1_c = c;
  constexpr unsigned system_saves = 1U << 27;
  if ((c & system_saves) != 0) {
    std::uint32_t low = 0, high = 0;
    asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    answers.saved = low | std::uint64_t{high} << 32;
  }
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return answers;
  answers.leaf7_b = b;
  answers.leaf7_c = c;
  answers.leaf7_d = d;
  if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) answers.leaf7_1_a = a;
  return answers;
}
#else
Cpuid ask() { return {}; }
#endif

}  // namespace

CpuFeatures::CpuFeatures(const Cpuid& answers) {
  for (const Row& row : rows)
    if ((answers.*row.answer >> row.bit & 1U) != 0 && (answers.saved & row.registers) == row.registers) bits_ |= bit_of(row.feature);
}

CpuFeatures CpuFeatures::without(std::string_view names) const {
  CpuFeatures left = *this;
  for (const std::string& name : split(names, ','))
    for (const Row& row : rows)
      if (row.name == name) left.bits_ &= ~bit_of(row.feature);
  return left;
}

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = [] {
    const char* const without = std::getenv("TANDEM_CPU_WITHOUT");
    return CpuFeatures(ask()).without(without ? without : "");
  }();
  return features;
}

}  // namespace tandem
