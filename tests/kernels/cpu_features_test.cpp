// Which level of the vector code processors get that this one is not: told by the answers of CPUID.
#include "kernels/cpu/features.h"

#include <gtest/gtest.h>

#include "kernels/cpu/isa.h"

namespace tandem {
namespace {

constexpr std::uint32_t fma = 1U << 12, avx2 = 1U << 5, avx512 = 1U << 16 | 1U << 17 | 1U << 30 | 1U << 31, avx_vnni = 1U << 4;
constexpr std::uint32_t avx512_bf16 = 1U << 5, amx = 1U << 22 | 1U << 24 | 1U << 25;
constexpr std::uint64_t sse = 0x3, avx = 0x7, avx512_registers = 0xe7, tiles = 0x600e7;

struct Processor {
  const char* name;
  Cpuid answers;
  Isa isa;
  bool onednn_is_held = false;
};
const Processor processors[] = {
    {"before AVX2", {.saved = avx}, Isa::baseline},
    {"AVX2", {.leaf1_c = fma, .leaf7_b = avx2, .saved = avx}, Isa::avx2},
    {"AVX2 without FMA", {.leaf7_b = avx2, .saved = avx}, Isa::baseline, true},
    {"FMA without AVX2", {.leaf1_c = fma, .saved = avx}, Isa::baseline},
    {"AVX2, whose registers the system does not save", {.leaf1_c = fma, .leaf7_b = avx2, .saved = sse}, Isa::baseline},
    {"a small core: AVX2 and AVX-VNNI", {.leaf1_c = fma, .leaf7_b = avx2, .leaf7_1_a = avx_vnni, .saved = avx}, Isa::avx2},
    {"a small core without FMA", {.leaf7_b = avx2, .leaf7_1_a = avx_vnni, .saved = avx}, Isa::baseline, true},
    {"AVX-512", {.leaf1_c = fma, .leaf7_b = avx2 | avx512, .saved = avx512_registers}, Isa::avx512},
    {"AVX-512 without FMA", {.leaf7_b = avx2 | avx512, .saved = avx512_registers}, Isa::baseline, true},
    {"AVX-512 of F alone", {.leaf1_c = fma, .leaf7_b = avx2 | 1U << 16, .saved = avx512_registers}, Isa::avx2},
    {"AVX-512 without DQ", {.leaf1_c = fma, .leaf7_b = avx2 | (avx512 & ~(1U << 17)), .saved = avx512_registers}, Isa::avx2},
    {"AVX-512 without VL", {.leaf1_c = fma, .leaf7_b = avx2 | (avx512 & ~(1U << 31)), .saved = avx512_registers}, Isa::avx2},
    {"AVX-512, whose registers the system does not save", {.leaf1_c = fma, .leaf7_b = avx2 | avx512, .saved = avx}, Isa::avx2},
    {"AVX-512 and tiles",
     {.leaf1_c = fma, .leaf7_b = avx2 | avx512, .leaf7_d = amx, .leaf7_1_a = avx512_bf16, .saved = tiles},
     Isa::avx512},
};

TEST(CpuFeatures, ALevelNeedsAllItsInstructions) {
  for (const Processor& p : processors) {
    const CpuFeatures features(p.answers);
    EXPECT_EQ(name_of(isa_for(features)), name_of(p.isa)) << p.name;
    EXPECT_EQ(onednn_asks_too_little(features), p.onednn_is_held) << p.name;
    EXPECT_EQ(isa_for(features, "baseline"), Isa::baseline) << p.name;
    EXPECT_EQ(isa_for(features, "avx2"), std::min(p.isa, Isa::avx2)) << p.name;
    EXPECT_EQ(isa_for(features, "no such level"), Isa::baseline) << p.name;
  }
}

TEST(CpuFeatures, ABitCountsWhereTheSystemSavesItsRegisters) {
  Cpuid answers{.leaf1_c = ~0U, .leaf7_b = ~0U, .leaf7_c = ~0U, .leaf7_d = ~0U, .leaf7_1_a = ~0U, .saved = avx512_registers};
  EXPECT_FALSE(CpuFeatures(answers).has(Feature::amx_tile));
  EXPECT_TRUE(CpuFeatures(answers).has({Feature::avx512_bf16, Feature::avx512_fp16, Feature::avx512_vnni, Feature::avx_vnni}));
  answers.saved = avx;
  EXPECT_FALSE(CpuFeatures(answers).has(Feature::avx512_bf16));
  EXPECT_TRUE(CpuFeatures(answers).has({Feature::avx2, Feature::fma, Feature::avx_vnni}));
}

TEST(CpuFeatures, SomeCanBeLeftOut) {
  const CpuFeatures all{Feature::avx2, Feature::fma, Feature::avx512f};
  EXPECT_FALSE(all.without("FMA").has(Feature::fma));
  EXPECT_TRUE(all.without("FMA").has({Feature::avx2, Feature::avx512f}));
  EXPECT_FALSE(all.without("AVX512F,FMA,no such one").has(Feature::avx512f));
  EXPECT_TRUE(all.without("").has(all));
}

#ifdef __x86_64__
// The compiler's answers are the same.
TEST(CpuFeatures, OfThisProcessor) {
  const CpuFeatures& here = cpu_features();
  EXPECT_EQ(here.has(Feature::avx2), __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ(here.has(Feature::fma), __builtin_cpu_supports("fma") != 0);
  EXPECT_EQ(here.has(Feature::avx512f), __builtin_cpu_supports("avx512f") != 0);
  EXPECT_EQ(here.has(Feature::avx512bw), __builtin_cpu_supports("avx512bw") != 0);
  EXPECT_EQ(here.has(Feature::avx512dq), __builtin_cpu_supports("avx512dq") != 0);
  EXPECT_EQ(here.has(Feature::avx512vl), __builtin_cpu_supports("avx512vl") != 0);
  EXPECT_EQ(here.has(Feature::avx512_vnni), __builtin_cpu_supports("avx512vnni") != 0);
  EXPECT_EQ(here.has(Feature::avx512_bf16), __builtin_cpu_supports("avx512bf16") != 0);
}
#endif

}  // namespace
}  // namespace tandem
