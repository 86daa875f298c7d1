// Sixteen floats as one number, and the elementary functions of math.h on them, where the processor picks from 32 numbers at once
// (AVX-512): an exponential is one of 2^(j/32) and a parabola, to 1.7 ulp; a division is an estimate and Newton's step.
#pragma once
#include "kernels/cpu/native/vector/math.h"

#if defined(__AVX512BW__)
#define TANDEM_WIDE
#include <immintrin.h>

namespace tandem::vector::TANDEM_ISA {
namespace {

struct Wide {
  __m512 v;
  Wide(__m512 x) : v(x) {}
  template <class T, class = decltype(static_cast<float>(T()))>
  Wide(T x) : v(_mm512_set1_ps(static_cast<float>(x))) {}
  static constexpr int lanes = 16;
  static Wide load(const float* p) { return _mm512_loadu_ps(p); }
  static Wide load(const float* p, int count) { return _mm512_maskz_loadu_ps(first(count), p); }
  void store(float* p) const { _mm512_storeu_ps(p, v); }
  void store(float* p, int count) const { _mm512_mask_storeu_ps(p, first(count), v); }
  static __mmask16 first(int count) { return static_cast<__mmask16>((1u << count) - 1); }
};
inline Wide operator+(Wide a, Wide b) { return a.v + b.v; }
inline Wide operator-(Wide a, Wide b) { return a.v - b.v; }
inline Wide operator*(Wide a, Wide b) { return a.v * b.v; }
inline Wide operator-(Wide a) { return -a.v; }

namespace math {

// The NaN of the second operand stays.
inline Wide larger(Wide a, Wide b) { return _mm512_max_ps(a.v, b.v); }
inline Wide smaller(Wide a, Wide b) { return _mm512_min_ps(a.v, b.v); }
inline Wide abs(Wide x) { return _mm512_abs_ps(x.v); }
inline Wide fused(Wide a, Wide b, Wide c) { return _mm512_fmadd_ps(a.v, b.v, c.v); }   // a·b + c
inline Wide reduced(Wide a, Wide b, Wide c) { return _mm512_fnmadd_ps(a.v, b.v, c.v); }  // c − a·b
// 1/x for 2⁻¹²⁶ < x < 2¹²⁶
inline Wide reciprocal(Wide x) {
  const Wide y = _mm512_rcp14_ps(x.v);
  return fused(y, reduced(x, y, 1), y);
}

alignas(64) constexpr float powers[32] = {
    1.0F,       1.0218972F, 1.0442737F, 1.0671405F, 1.0905077F, 1.1143868F, 1.1387886F, 1.1637249F, 1.1892071F, 1.2152474F, 1.2418578F,
    1.269051F,  1.2968396F, 1.3252367F, 1.3542556F, 1.38391F,   1.4142135F, 1.4451808F, 1.4768262F, 1.5091645F, 1.5422108F, 1.5759809F,
    1.6104903F, 1.6457555F, 1.6817929F, 1.7186193F, 1.7562522F, 1.7947091F, 1.8340081F, 1.8741677F, 1.9152066F, 1.9571441F};

// eˣ = 2^(n/32)·eʳ, |r| ≤ ln2/64, for x that n is a number of: a few thousand
inline Wide exp_within(Wide x) {
  const Wide shifted = fused(x, 46.16624F, round_magic), n = shifted - round_magic;
  const Wide r = reduced(n, -5.9520444e-11F, reduced(n, 0.02166085F, x));
  const Wide q = r * fused(r, 0.49999997F, 1.0000147F);
  const Wide power = _mm512_permutex2var_ps(_mm512_load_ps(powers), _mm512_castps_si512(shifted.v), _mm512_load_ps(powers + 16));
  return _mm512_scalef_ps(fused(power, q, power).v, (n * (1 / 32.0F)).v);
}
inline Wide exp(Wide x) { return exp_within(smaller(89, larger(-104, x))); }
inline Wide exp_below_zero(Wide x) { return exp_within(larger(-87, x)); }
inline Wide bell(Wide x) { return exp_below_zero(-0.5F * x * x); }

// 0 from −88 on
inline Wide sigmoid(Wide x) { return reciprocal(1 + exp_within(larger(-87, smaller(88, -x)))); }

inline Wide tanh(Wide x) {
  const Wide a = abs(x), z = x * x;
  Wide p = -0.0057170447F;
  p = fused(p, z, 0.0206505861F);
  p = fused(p, z, -0.0537434965F);
  p = fused(p, z, 0.133314908F);
  p = fused(p, z, -0.333332837F);
  const Wide small = fused(x * z, p, x), e = exp_below_zero(-2 * a), large = reduced(2 * e, reciprocal(1 + e), 1);
  const __m512i sign = _mm512_set1_epi32(INT32_MIN);
  const __m512 signed_large =
      _mm512_castsi512_ps(_mm512_ternarylogic_epi32(sign, _mm512_castps_si512(x.v), _mm512_castps_si512(large.v), 0xca));
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, _mm512_set1_ps(0.625F), _CMP_LT_OQ), signed_large, small.v);
}

inline Wide normal_below(Wide x, Wide bell) {
  const Wide t = fused(smaller(5.2F, abs(x)), 2 / 5.2F, -1);
  Wide q = -0.000467582315F;
  q = fused(q, t, 0.0010754657F);
  q = fused(q, t, -0.000586301612F);
  q = fused(q, t, 0.000714152178F);
  q = fused(q, t, -0.0032459721F);
  q = fused(q, t, 0.00628819503F);
  q = fused(q, t, -0.0097513739F);
  q = fused(q, t, 0.0161443818F);
  q = fused(q, t, -0.0264700167F);
  q = fused(q, t, 0.0410641655F);
  q = fused(q, t, -0.0606158487F);
  q = fused(q, t, 0.0848860964F);
  q = fused(q, t, -0.111787654F);
  q = fused(q, t, 0.136902705F);
  const Wide tail = q * bell;
  return _mm512_mask_sub_ps(tail.v, _mm512_cmp_ps_mask(x.v, _mm512_setzero_ps(), _CMP_GT_OQ), _mm512_set1_ps(1), tail.v);
}

}  // namespace math
}  // namespace
}  // namespace tandem::vector::TANDEM_ISA
#endif
