// What the processor, and the system that saves its registers, say that programs may use. Each instruction set is asked for by its own
// bit: a virtual machine may hide one that processors with the others always have.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace tandem {

enum class Feature {
  avx2, fma, avx_vnni,
  avx512f, avx512bw, avx512dq, avx512vl, avx512_vnni, avx512_bf16, avx512_fp16,
  amx_tile, amx_bf16, amx_int8,
};

// The answers of CPUID that features are bits of, and of XGETBV: which registers the system saves.
struct Cpuid {
  std::uint32_t leaf1_c = 0, leaf7_b = 0, leaf7_c = 0, leaf7_d = 0, leaf7_1_a = 0;
  std::uint64_t saved = 0;
};

class CpuFeatures {
 public:
  constexpr CpuFeatures(std::initializer_list<Feature> features = {}) {
    for (const Feature f : features) bits_ |= bit_of(f);
  }
  explicit CpuFeatures(const Cpuid& answers);
  constexpr bool has(const CpuFeatures& all) const { return (bits_ & all.bits_) == all.bits_; }
  constexpr bool has(Feature feature) const { return (bits_ & bit_of(feature)) != 0; }
  CpuFeatures without(std::string_view names) const;  // "FMA,AVX-VNNI"; what no feature is named is passed over

 private:
  static constexpr std::uint32_t bit_of(Feature feature) { return 1U << static_cast<unsigned>(feature); }
  std::uint32_t bits_ = 0;
};

// This processor's, but for those that TANDEM_CPU_WITHOUT lists (for tests): asked once. None on other processors than x86's.
const CpuFeatures& cpu_features();

// oneDNN's kernels for AVX2 compute by FMA, and it asks for AVX2 alone. Such a processor is to be held to SSE4.1.
inline bool onednn_asks_too_little(const CpuFeatures& features) { return features.has(Feature::avx2) && !features.has(Feature::fma); }

}  // namespace tandem
