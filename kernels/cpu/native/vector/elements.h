// Sixteen elements as one vector on every machine: how they are read and written, and what they are computed in.
#pragma once
#include "kernels/cpu/native/vector/math.h"

#if defined(__AVX512BW__)
#include <immintrin.h>
#endif

namespace tandem::vector::TANDEM_ISA {
namespace {

constexpr int lanes = 16;

template <class S>
using Lanes [[gnu::vector_size(lanes * sizeof(S)), gnu::aligned(alignof(S)), gnu::may_alias]] = S;
using Halves [[gnu::vector_size(lanes * 2), gnu::aligned(2), gnu::may_alias]] = std::uint16_t;
using Words [[gnu::vector_size(lanes * 4), gnu::aligned(4), gnu::may_alias]] = std::uint32_t;

#if defined(__AVX512BW__)
inline __mmask16 first_lanes(int n) { return static_cast<__mmask16>((1U << n) - 1U); }
#endif

// How elements are read and written. `Sum`: what they are computed in.
template <class T>
struct Plain {
  using Element = T;
  using Sum = T;
  static Lanes<T> load(const T* p) { return *reinterpret_cast<const Lanes<T>*>(p); }
  static void store(T* p, Lanes<T> v) { *reinterpret_cast<Lanes<T>*>(p) = v; }
  // The first n; those behind them are not touched in memory, and 0 in a vector.
  static Lanes<T> load(const T* p, int n) {
#if defined(__AVX512BW__)
    if constexpr (sizeof(T) == sizeof(float)) return _mm512_maskz_loadu_ps(first_lanes(n), p);
#endif
    Lanes<T> v{};
    for (int k = 0; k < n; ++k) v[k] = p[k];
    return v;
  }
  static void store(T* p, Lanes<T> v, int n) {
#if defined(__AVX512BW__)
    if constexpr (sizeof(T) == sizeof(float)) return _mm512_mask_storeu_ps(p, first_lanes(n), v);
#endif
    for (int k = 0; k < n; ++k) p[k] = v[k];
  }
  static T get(const T* p) { return *p; }
  static void put(T* p, T v) { *p = v; }
};
struct Bfloat16 {
  using Element = std::uint16_t;
  using Sum = float;
#if defined(__AVX512BW__)
  static Lanes<float> widen(__m256i halves) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16)); }
  static __m256i narrow(Lanes<float> v) {
    const __m512i b = _mm512_castps_si512(v), high = _mm512_srli_epi32(b, 16);
    const __m512i rounded = _mm512_srli_epi32(
        _mm512_add_epi32(b, _mm512_add_epi32(_mm512_set1_epi32(0x7fff), _mm512_and_si512(high, _mm512_set1_epi32(1)))), 16);
    const __m512i result = _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), high, _mm512_set1_epi32(0x40));
    return _mm512_cvtepi32_epi16(result);
  }
  static Lanes<float> load(const Element* p) { return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  static void store(Element* p, Lanes<float> v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow(v)); }
  static Lanes<float> load(const Element* p, int n) { return widen(_mm256_maskz_loadu_epi16(first_lanes(n), p)); }
  static void store(Element* p, Lanes<float> v, int n) { _mm256_mask_storeu_epi16(p, first_lanes(n), narrow(v)); }
#else
  static Lanes<float> load(const Element* p) {
    const Words wide = __builtin_convertvector(*reinterpret_cast<const Halves*>(p), Words) << 16;
    return reinterpret_cast<const Lanes<float>&>(wide);
  }
  static void store(Element* p, Lanes<float> v) {
    const Words b = reinterpret_cast<const Words&>(v), rounded = (b + 0x7fffu + (b >> 16 & 1u)) >> 16, quiet = b >> 16 | 0x40u;
    *reinterpret_cast<Halves*>(p) = __builtin_convertvector((b & 0x7fffffffu) > 0x7f800000u ? quiet : rounded, Halves);
  }
  static Lanes<float> load(const Element* p, int n) {
    Lanes<float> v{};
    for (int k = 0; k < n; ++k) v[k] = get(p + k);
    return v;
  }
  static void store(Element* p, Lanes<float> v, int n) {
    for (int k = 0; k < n; ++k) put(p + k, v[k]);
  }
#endif
  static float get(const Element* p) { return math::from_bits(static_cast<std::int32_t>(static_cast<std::uint32_t>(*p) << 16)); }
  static void put(Element* p, float v) {
    const std::uint32_t b = static_cast<std::uint32_t>(math::bits(v)), rounded = (b + 0x7fffu + (b >> 16 & 1u)) >> 16,
                        quiet = b >> 16 | 0x40u;
    *p = static_cast<Element>((b & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  }
};

// Rounded by the processor (AVX512_BF16): to the nearest, too, and numbers below 2⁻¹²⁶ to 0. Written out, as the instruction is not
// among those that this is compiled for. No processor without AVX-512 has it.
#if defined(__AVX512BW__)
struct RoundedBfloat16 : Bfloat16 {
  static __m256i narrow(Lanes<float> v) {
    __m256i halves;
    asm("vcvtneps2bf16 %1, %0" : "=v"(halves) : "v"(v));
    return halves;
  }
  static void store(Element* p, Lanes<float> v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow(v)); }
  static void store(Element* p, Lanes<float> v, int n) { _mm256_mask_storeu_epi16(p, first_lanes(n), narrow(v)); }
};
#else
using RoundedBfloat16 = Bfloat16;
#endif

}  // namespace
}  // namespace tandem::vector::TANDEM_ISA
