// Elementary functions without branches or calls, so that loops over them vectorise: float within about 2 ulp (minimax
// polynomials fitted for the ranges given), double by the C library.
#pragma once
#include <cstdint>

namespace tandem::vector::TANDEM_ISA {
namespace {
namespace math {

inline std::int32_t bits(float x) { return __builtin_bit_cast(std::int32_t, x); }
inline float from_bits(std::int32_t b) { return __builtin_bit_cast(float, b); }
inline float power_of_two(std::int32_t n) { return from_bits((n + 127) << 23); }  // −126 ≤ n ≤ 127

constexpr float round_magic = 12582912.0F;  // 1.5·2²³: adding it leaves an integer in the low bits
constexpr float infinity = __builtin_inff();
constexpr float ln2_high = 0.693359375F, ln2_low = -2.12194440e-4F;

// NaN stays.
inline float smaller(float a, float b) { return b > a ? a : b; }
inline double smaller(double a, double b) { return b > a ? a : b; }
inline float reciprocal(float x) { return 1 / x; }
inline double reciprocal(double x) { return 1 / x; }

// eˣ = 2ⁿ·eʳ, |r| ≤ ln2/2
inline float exp(float x) {
  x = x < -104.0F ? -104.0F : x;
  x = x > 89.0F ? 89.0F : x;
  const float shifted = x * 1.44269504F + round_magic;
  const float n = shifted - round_magic;
  const float r = (x - n * ln2_high) - n * ln2_low;
  float p = 0.00139504788F;
  p = p * r + 0.00836888235F;
  p = p * r + 0.041666206F;
  p = p * r + 0.166665196F;
  p = p * r + 0.5F;
  p = p * (r * r) + r + 1.0F;
  // In two factors: n reaches from −150 to 128.
  const std::int32_t k = bits(shifted) - bits(round_magic);
  const std::int32_t half = k >> 1;
  return p * power_of_two(half) * power_of_two(k - half);
}
inline double exp(double x) { return __builtin_exp(x); }

// log x = e·ln2 + log(1 + f), √½ ≤ 1 + f < √2
inline float log(float x) {
  const bool tiny = x < 1.17549435e-38F;
  const float scaled = tiny ? x * 8388608.0F : x;
  const std::int32_t b = bits(scaled);
  const std::int32_t e = (b - 0x3f3504f3) >> 23;
  const float f = from_bits(b - (e << 23)) - 1.0F;
  const float n = static_cast<float>(e) - (tiny ? 23.0F : 0.0F);
  float p = 0.0674663857F;
  p = p * f - 0.116756514F;
  p = p * f + 0.118881628F;
  p = p * f - 0.124055892F;
  p = p * f + 0.142195523F;
  p = p * f - 0.166679963F;
  p = p * f + 0.200021192F;
  p = p * f - 0.250000089F;
  p = p * f + 0.333333135F;
  const float ff = f * f;
  const float y = n * ln2_high + (f + ((p * f - 0.5F) * ff + n * ln2_low));
  const float edge = x == 0.0F ? -infinity : __builtin_nanf("");
  const float inside = x == infinity ? x : y;
  return x > 0.0F ? inside : edge;
}
inline double log(double x) { return __builtin_log(x); }

// log(1 + u), 0 ≤ u ≤ 1: what 1 + u rounded away is put back to first order
inline float log1p(float u) {
  const float w = 1.0F + u;
  return log(w) - ((w - 1.0F) - u) / w;
}
inline double log1p(double u) { return __builtin_log1p(u); }

inline float tanh(float x) {
  const float a = __builtin_fabsf(x);
  const float z = x * x;
  float p = -0.0057170447F;
  p = p * z + 0.0206505861F;
  p = p * z - 0.0537434965F;
  p = p * z + 0.133314908F;
  p = p * z - 0.333332837F;
  const float small = x + x * z * p;
  const float large = __builtin_copysignf(1.0F - 2.0F / (exp(2.0F * a) + 1.0F), x);
  return a < 0.625F ? small : large;
}
inline double tanh(double x) { return __builtin_tanh(x); }

// Small: x + x·Q(x²). Large: 1 − e^P(|x|), P fitted to log erfc.
inline float erf(float x) {
  const float a = __builtin_fabsf(x);
  const float z = x * x;
  float q = 8.39780405e-05F;
  q = q * z - 0.000814980827F;
  q = q * z + 0.00520171644F;
  q = q * z - 0.0268597025F;
  q = q * z + 0.112837017F;
  q = q * z - 0.376126349F;
  q = q * z + 0.128379166F;
  const float small = x + x * q;
  const float t = a > 4.0F ? 4.0F : a;
  float p = -2.1118507e-05F;
  p = p * t + 0.00043473384F;
  p = p * t - 0.00417237729F;
  p = p * t + 0.0251228884F;
  p = p * t - 0.108285442F;
  p = p * t - 0.633342028F;
  p = p * t - 1.12951732F;
  p = p * t + 0.000175184774F;
  const float large = __builtin_copysignf(1.0F - exp(p), x);
  return a < 0.921875F ? small : large;
}
inline double erf(double x) { return __builtin_erf(x); }

inline float expm1(float x) {
  // Near zero by the same series without its one; elsewhere nothing cancels.
  float p = 0.00139504788F;
  p = p * x + 0.00836888235F;
  p = p * x + 0.041666206F;
  p = p * x + 0.166665196F;
  p = p * x + 0.5F;
  const float small = p * (x * x) + x;
  return __builtin_fabsf(x) < 0.34F ? small : exp(x) - 1.0F;
}
inline double expm1(double x) { return __builtin_expm1(x); }

template <class T>
inline T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}

// eˣ for x ≤ 0, 0 from −87 on: in one factor
inline float exp_below_zero(float x) {
  x = x < -87.0F ? -87.0F : x;
  const float shifted = x * 1.44269504F + round_magic;
  const float n = shifted - round_magic;
  const float r = (x - n * ln2_high) - n * ln2_low;
  float p = 0.00139504788F;
  p = p * r + 0.00836888235F;
  p = p * r + 0.041666206F;
  p = p * r + 0.166665196F;
  p = p * r + 0.5F;
  p = p * (r * r) + r + 1.0F;
  return p * power_of_two(bits(shifted) - bits(round_magic));
}
inline double exp_below_zero(double x) { return __builtin_exp(x); }

// e^(−x²/2)
template <class T>
inline T bell(T x) {
  return exp_below_zero(T(-0.5) * x * x);
}

// The normal distribution Φ(x), given bell(x): below zero bell · Q(−x), with Q fitted where it matters, to a relative 2·10⁻⁷.
inline float normal_below(float x, float bell) {
  const float a = __builtin_fabsf(x), t = (a < 5.2F ? a : 5.2F) * (2 / 5.2F) - 1.0F;
  float q = -0.000467582315F;
  q = q * t + 0.0010754657F;
  q = q * t - 0.000586301612F;
  q = q * t + 0.000714152178F;
  q = q * t - 0.0032459721F;
  q = q * t + 0.00628819503F;
  q = q * t - 0.0097513739F;
  q = q * t + 0.0161443818F;
  q = q * t - 0.0264700167F;
  q = q * t + 0.0410641655F;
  q = q * t - 0.0606158487F;
  q = q * t + 0.0848860964F;
  q = q * t - 0.111787654F;
  q = q * t + 0.136902705F;
  const float tail = q * bell;
  return x > 0.0F ? 1.0F - tail : tail;
}
inline double normal_below(double x, double) { return 0.5 * __builtin_erfc(-x * 0.7071067811865476); }

// √(2/π) (x + 0.044715 x³)
template <class T>
inline T gelu_bend(T x) {
  return x * (T(0.7978845608028654) + T(0.035677408136300125) * x * x);
}

inline float sqrt(float x) { return __builtin_sqrtf(x); }
inline double sqrt(double x) { return __builtin_sqrt(x); }
inline float abs(float x) { return __builtin_fabsf(x); }
inline double abs(double x) { return __builtin_fabs(x); }

}  // namespace math
}  // namespace
}  // namespace tandem::vector::TANDEM_ISA
