// Sixteen elements as one number on every machine: how they are read and written, and what they are computed in.
#pragma once
#include <utility>

#include "kernels/cpu/native/vector/math.h"

#if defined(__AVX512BW__)
#include <immintrin.h>
#endif

namespace tandem::vector::TANDEM_ISA {
namespace {

constexpr int lanes = 16;

#if defined(__AVX512BW__)
template <class S>
using Lanes [[gnu::vector_size(lanes * sizeof(S)), gnu::aligned(alignof(S)), gnu::may_alias]] = S;
// of(a's part, b's part and so on) for each register that they take.
template <class F, class... Operands>
auto of_each(const F& of, Operands... operands) { return of(operands...); }
#else
// In as many registers as they take: a longer vector than a register would lie in memory.
template <class S>
struct Lanes {
#if defined(__AVX2__)
  static constexpr int each = 32 / sizeof(S);
#else
  static constexpr int each = 16 / sizeof(S);
#endif
  static constexpr int count = lanes / each;
  using Register [[gnu::vector_size(each * sizeof(S)), gnu::aligned(alignof(S)), gnu::may_alias]] = S;
  Register part[count];
  S operator[](int k) const { return part[k / each][k % each]; }
};
template <class F, class S, class... More>
inline Lanes<S> of_each(const F& of, const Lanes<S>& a, const More&... more) {
  return [&]<int... k>(std::integer_sequence<int, k...>) {
    const auto part = [&](int i) { return of(a.part[i], more.part[i]...); };
    return Lanes<S>{{part(k)...}};
  }(std::make_integer_sequence<int, Lanes<S>::count>());
}
#define TANDEM_OF_LANES(op) \
  template <class S> \
  inline Lanes<S> operator op(const Lanes<S>& a, const Lanes<S>& b) { return of_each([](auto x, auto y) { return x op y; }, a, b); } \
  template <class S> \
  inline Lanes<S> operator op(const Lanes<S>& a, S b) { return of_each([b](auto x) { return x op b; }, a); } \
  template <class S> \
  inline Lanes<S> operator op(S a, const Lanes<S>& b) { return of_each([a](auto x) { return a op x; }, b); }
TANDEM_OF_LANES(+)
TANDEM_OF_LANES(-)
TANDEM_OF_LANES(*)
#undef TANDEM_OF_LANES
template <class S>
inline Lanes<S>& operator+=(Lanes<S>& a, const Lanes<S>& b) { return a = a + b; }
#endif

#if defined(__AVX512BW__)
inline __mmask16 first_lanes(int n) { return static_cast<__mmask16>((1U << n) - 1U); }
#endif

// How elements are read and written. `Sum`: what they are computed in.
template <class T>
struct Plain {
  using Element = T;
  using Sum = T;
#if defined(__AVX512BW__)
  static Lanes<T> load(const T* p) { return *reinterpret_cast<const Lanes<T>*>(p); }
  static void store(T* p, Lanes<T> v) { *reinterpret_cast<Lanes<T>*>(p) = v; }
#else
  using Register = typename Lanes<T>::Register;
  static Lanes<T> load(const T* p) {
    return parts([p](int k) { return *reinterpret_cast<const Register*>(p + k * Lanes<T>::each); });
  }
  static void store(T* p, const Lanes<T>& v) {
#pragma GCC unroll 8
    for (int k = 0; k < Lanes<T>::count; ++k) *reinterpret_cast<Register*>(p + k * Lanes<T>::each) = v.part[k];
  }
  template <class F>
  static Lanes<T> parts(const F& part) {
    return [&]<int... k>(std::integer_sequence<int, k...>) {
      return Lanes<T>{{part(k)...}};
    }(std::make_integer_sequence<int, Lanes<T>::count>());
  }
#endif
  // The first n; those behind them are not touched in memory, and 0 in a vector.
  static Lanes<T> load(const T* p, int n) {
#if defined(__AVX512BW__)
    if constexpr (sizeof(T) == sizeof(float)) return _mm512_maskz_loadu_ps(first_lanes(n), p);
#endif
    T values[lanes] = {};
    for (int k = 0; k < n; ++k) values[k] = p[k];
    return load(values);
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
  static constexpr int each = Lanes<float>::each;
  using Register = Lanes<float>::Register;
  using Halves [[gnu::vector_size(each * 2), gnu::aligned(2), gnu::may_alias]] = std::uint16_t;
  using Words [[gnu::vector_size(each * 4), gnu::aligned(4), gnu::may_alias]] = std::uint32_t;
  static Lanes<float> load(const Element* p) {
    return Plain<float>::parts([p](int k) {
      const Words wide = __builtin_convertvector(*reinterpret_cast<const Halves*>(p + k * each), Words) << 16;
      return reinterpret_cast<const Register&>(wide);
    });
  }
  static void store(Element* p, const Lanes<float>& v) {
#pragma GCC unroll 8
    for (int k = 0; k < Lanes<float>::count; ++k) {
      const Words b = reinterpret_cast<const Words&>(v.part[k]), rounded = (b + 0x7fffu + (b >> 16 & 1u)) >> 16, quiet = b >> 16 | 0x40u;
      *reinterpret_cast<Halves*>(p + k * each) = __builtin_convertvector((b & 0x7fffffffu) > 0x7f800000u ? quiet : rounded, Halves);
    }
  }
  static Lanes<float> load(const Element* p, int n) {
    float values[lanes] = {};
    for (int k = 0; k < n; ++k) values[k] = get(p + k);
    return Plain<float>::load(values);
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
