// The elementwise operators on float and double: one row each. Meaning: graph/operators/.
#include "kernels/cpu/native/vector/parts.h"
#include "kernels/cpu/native/vector/wide.h"

namespace tandem::vector::TANDEM_ISA {
namespace {

using std::int64_t;

// ivdep: an output may be exactly one of the inputs, never a shifted one.
template <class T, class F>
void unary(void* y, const void* a, const void*, const void*, int64_t n, const double*) {
  T* const out = static_cast<T*>(y);
  const T* const in = static_cast<const T*>(a);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = F{}(in[i]);
}

template <class T, class F>
void unary_with(void* y, const void* a, const void*, const void*, int64_t n, const double* params) {
  T* const out = static_cast<T*>(y);
  const T* const in = static_cast<const T*>(a);
  const T p = static_cast<T>(params[0]), q = static_cast<T>(params[1]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = F{}(in[i], p, q);
}

template <class T, class F>
void binary(void* y, const void* a, const void* b, const void*, int64_t n, const double*) {
  T* const out = static_cast<T*>(y);
  const T* const first = static_cast<const T*>(a);
  const T* const second = static_cast<const T*>(b);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = F{}(first[i], second[i]);
}

template <class T, class F>
void binary_with(void* y, const void* a, const void* b, const void*, int64_t n, const double* params) {
  T* const out = static_cast<T*>(y);
  const T* const first = static_cast<const T*>(a);
  const T* const second = static_cast<const T*>(b);
  const T p = static_cast<T>(params[0]), q = static_cast<T>(params[1]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = F{}(first[i], second[i], p, q);
}

// bfloat16, the upper half of a float.
using Half = std::uint16_t;
inline float widened(Half h) { return math::from_bits(static_cast<std::int32_t>(static_cast<std::uint32_t>(h) << 16)); }
inline Half narrowed(float x) {
  const std::uint32_t b = static_cast<std::uint32_t>(math::bits(x)), rounded = (b + 0x7fffu + (b >> 16 & 1u)) >> 16,
                      quiet = b >> 16 | 0x40u;
  return static_cast<Half>((b & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}
template <class F, bool two, bool with>
void halves(void* y, const void* a, const void* b, const void*, int64_t n, const double* params) {
  Half* const out = static_cast<Half*>(y);
  const Half *const first = static_cast<const Half*>(a), *const second = static_cast<const Half*>(b);
  [[maybe_unused]] const float p = with ? static_cast<float>(params[0]) : 0, q = with ? static_cast<float>(params[1]) : 0;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (two && with)
      out[i] = narrowed(F{}(widened(first[i]), widened(second[i]), p, q));
    else if constexpr (two)
      out[i] = narrowed(F{}(widened(first[i]), widened(second[i])));
    else if constexpr (with)
      out[i] = narrowed(F{}(widened(first[i]), p, q));
    else
      out[i] = narrowed(F{}(widened(first[i])));
  }
}

#ifdef TANDEM_WIDE
// What the loops below compute with: a vector, and two.
struct Floats {
  using Element = float;
  static constexpr int64_t step = Wide::lanes;
  template <class F>
  static void run(float* y, const float* a, const float* b, const F& f) {
    f(Wide::load(a), Wide::load(b)).store(y);
  }
};
// Even elements and odd ones are each a vector of floats; to the nearest, ties to even.
struct Pairs {
  using Element = Half;
  static constexpr int64_t step = 2 * Wide::lanes;
  static Wide even(__m512i x) { return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16)); }
  static Wide odd(__m512i x) { return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32(-65536))); }
  static __m512i rounded(Wide x) {
    const __m512i b = _mm512_castps_si512(x.v), half = _mm512_add_epi32(b, _mm512_set1_epi32(0x7fff));
    return _mm512_mask_sub_epi32(half, _mm512_test_epi32_mask(b, _mm512_set1_epi32(0x10000)), half, _mm512_set1_epi32(-1));
  }
  template <class F>
  static void run(Half* y, const Half* a, const Half* b, const F& f) {
    const __m512i first = _mm512_loadu_si512(a), second = _mm512_loadu_si512(b);
    const Wide low = f(even(first), even(second)), high = f(odd(first), odd(second));
    __m512i l = rounded(low), h = rounded(high);
    if (_mm512_cmp_ps_mask(low.v, high.v, _CMP_UNORD_Q)) [[unlikely]] {
      l = _mm512_mask_or_epi32(l, _mm512_cmp_ps_mask(low.v, low.v, _CMP_UNORD_Q), _mm512_castps_si512(low.v), _mm512_set1_epi32(0x400000));
      h = _mm512_mask_or_epi32(h, _mm512_cmp_ps_mask(high.v, high.v, _CMP_UNORD_Q), _mm512_castps_si512(high.v),
                               _mm512_set1_epi32(0x400000));
    }
    _mm512_storeu_si512(y, _mm512_ternarylogic_epi32(_mm512_srli_epi32(l, 16), h, _mm512_set1_epi32(-65536), 0xf8));  // l | (h & mask)
  }
};
// The last elements go through a vector of their own: what an element becomes does not depend on its place.
template <class E, class F>
void in_vectors(typename E::Element* y, const typename E::Element* a, const typename E::Element* b, int64_t n, const F& f) {
  int64_t i = 0;
#pragma GCC unroll 2
  for (; i + E::step <= n; i += E::step) E::run(y + i, a + i, b + i, f);
  if (i == n) return;
  typename E::Element x[2][E::step] = {};
  for (int64_t k = 0; i + k < n; ++k) {
    x[0][k] = a[i + k];
    x[1][k] = b[i + k];
  }
  E::run(x[0], x[0], x[1], f);
  for (int64_t k = 0; i + k < n; ++k) y[i + k] = x[0][k];
}
template <class E, class F, bool two, bool with>
void wide(void* y, const void* a, const void* b, const void*, int64_t n, const double* params) {
  using T = typename E::Element;
  [[maybe_unused]] const Wide p = with ? params[0] : 0, q = with ? params[1] : 0;
  in_vectors<E>(static_cast<T*>(y), static_cast<const T*>(a), static_cast<const T*>(two ? b : a), n,
                [&](Wide first, [[maybe_unused]] Wide second) -> Wide {
                  if constexpr (two && with)
                    return F{}(first, second, p, q);
                  else if constexpr (two)
                    return F{}(first, second);
                  else if constexpr (with)
                    return F{}(first, p, q);
                  else
                    return F{}(first);
                });
}
#endif

template <class F>
constexpr MicroRow row1(const char* name, F) { return {name, 1, unary<float, F>, unary<double, F>, halves<F, false, false>}; }
template <class F>
constexpr MicroRow row1p(const char* name, F) { return {name, 1, unary_with<float, F>, unary_with<double, F>, halves<F, false, true>}; }
template <class F>
constexpr MicroRow row2(const char* name, F) { return {name, 2, binary<float, F>, binary<double, F>, halves<F, true, false>}; }
template <class F>
constexpr MicroRow row2p(const char* name, F) { return {name, 2, binary_with<float, F>, binary_with<double, F>, halves<F, true, true>}; }

// Of arithmetic on `auto` alone, which vectors have, too.
template <bool two, bool with, class F>
constexpr MicroRow heavy([[maybe_unused]] MicroRow row, F) {
#ifdef TANDEM_WIDE
  row.float32 = wide<Floats, F, two, with>;
  row.bfloat16 = wide<Pairs, F, two, with>;
#endif
  return row;
}
template <class F>
constexpr MicroRow heavy1(const char* name, F f) { return heavy<false, false>(row1(name, f), f); }
template <class F>
constexpr MicroRow heavy1p(const char* name, F f) { return heavy<false, true>(row1p(name, f), f); }
template <class F>
constexpr MicroRow heavy2(const char* name, F f) { return heavy<true, false>(row2(name, f), f); }
template <class F>
constexpr MicroRow heavy2p(const char* name, F f) { return heavy<true, true>(row2p(name, f), f); }

float floor(float x) { return __builtin_floorf(x); }
double floor(double x) { return __builtin_floor(x); }
float ceil(float x) { return __builtin_ceilf(x); }
double ceil(double x) { return __builtin_ceil(x); }
float nearest(float x) { return __builtin_rintf(x); }
double nearest(double x) { return __builtin_rint(x); }
float sine(float x) { return __builtin_sinf(x); }
double sine(double x) { return __builtin_sin(x); }
float cosine(float x) { return __builtin_cosf(x); }
double cosine(double x) { return __builtin_cos(x); }
float arctangent(float x) { return __builtin_atanf(x); }
double arctangent(double x) { return __builtin_atan(x); }
float arccosine(float x) { return __builtin_acosf(x); }
double arccosine(double x) { return __builtin_acos(x); }
float area_cosine(float x) { return __builtin_acoshf(x); }
double area_cosine(double x) { return __builtin_acosh(x); }
float arcsine(float x) { return __builtin_asinf(x); }
double arcsine(double x) { return __builtin_asin(x); }
float area_sine(float x) { return __builtin_asinhf(x); }
double area_sine(double x) { return __builtin_asinh(x); }
float area_tangent(float x) { return __builtin_atanhf(x); }
double area_tangent(double x) { return __builtin_atanh(x); }
float hyperbolic_cosine(float x) { return __builtin_coshf(x); }
double hyperbolic_cosine(double x) { return __builtin_cosh(x); }
float hyperbolic_sine(float x) { return __builtin_sinhf(x); }
double hyperbolic_sine(double x) { return __builtin_sinh(x); }
float tangent(float x) { return __builtin_tanf(x); }
double tangent(double x) { return __builtin_tan(x); }
float power(float x, float y) { return __builtin_powf(x, y); }
double power(double x, double y) { return __builtin_pow(x, y); }

}  // namespace

const MicroRow micro_ops[] = {
    row2("Add", [](auto a, auto b) { return a + b; }),
    row2("Sub", [](auto a, auto b) { return a - b; }),
    row2("Mul", [](auto a, auto b) { return a * b; }),
    row2("Div", [](auto a, auto b) { return a / b; }),
    row2("Max", [](auto a, auto b) { return a != a || a > b ? a : b; }),
    row2("Min", [](auto a, auto b) { return a != a || a < b ? a : b; }),
    row2("Pow", [](auto a, auto b) { return power(a, b); }),
    row1("Relu", [](auto x) { return 0 > x ? 0 : x; }),
    row1p("LeakyRelu", [](auto x, auto alpha, auto) { return x >= 0 ? x : alpha * x; }),
    row2("PRelu", [](auto x, auto slope) { return x > 0 ? x : slope * x; }),
    row2("PReluSlope", [](auto x, auto slope) { return x > 0 ? 1 : slope; }),
    row1p("Elu", [](auto x, auto alpha, auto) { return x >= 0 ? x : alpha * math::expm1(x); }),
    heavy1("Sigmoid", [](auto x) { return math::sigmoid(x); }),
    row1p("HardSigmoid", [](auto x, auto alpha, auto beta) {
      const auto y = alpha * x + beta;
      return y < 0 ? 0 : y > 1 ? 1 : y;
    }),
    heavy1("Tanh", [](auto x) { return math::tanh(x); }),
    row1p("Clip", [](auto x, auto low, auto high) {
      const auto y = x < low ? low : x;
      return y > high ? high : y;
    }),
    row1("Softplus", [](auto x) { return math::log1p(math::exp(-math::abs(x))) + (0 > x ? 0 : x); }),
    heavy1("Exp", [](auto x) { return math::exp(x); }),
    row1("Log", [](auto x) { return math::log(x); }),
    row1("Sqrt", [](auto x) { return math::sqrt(x); }),
    row1("Erf", [](auto x) { return math::erf(x); }),
    heavy1("GeluErf", [](auto x) { return x * math::normal_below(x, math::bell(x)); }),
    heavy1("GeluTanh", [](auto x) { return x * math::sigmoid(2 * math::gelu_bend(x)); }),
    row1("HardSwish", [](auto x) {
      const auto y = x / 6 + decltype(x)(0.5);
      return x * (y < 0 ? 0 : y > 1 ? 1 : y);
    }),
    heavy1p("Swish", [](auto x, auto alpha, auto) { return x * math::sigmoid(alpha * x); }),
    row1("Abs", [](auto x) { return math::abs(x); }),
    row1("Neg", [](auto x) { return -x; }),
    row1("Reciprocal", [](auto x) { return 1 / x; }),
    row1("Sign", [](auto x) { return x > 0 ? 1 : x < 0 ? -1 : x; }),
    row1("Floor", [](auto x) { return floor(x); }),
    row1("Ceil", [](auto x) { return ceil(x); }),
    row1("Round", [](auto x) { return nearest(x); }),
    row2p("QuantizeLevels", [](auto x, auto scale, auto low, auto high) {
      const auto level = nearest(x / scale);
      const auto y = level < low ? low : level;
      return y > high ? high : y;
    }),
    row1("Sin", [](auto x) { return sine(x); }),
    row1("Cos", [](auto x) { return cosine(x); }),
    row1("Atan", [](auto x) { return arctangent(x); }),
    row1("Acos", [](auto x) { return arccosine(x); }),
    row1("Acosh", [](auto x) { return area_cosine(x); }),
    row1("Asin", [](auto x) { return arcsine(x); }),
    row1("Asinh", [](auto x) { return area_sine(x); }),
    row1("Atanh", [](auto x) { return area_tangent(x); }),
    row1("Cosh", [](auto x) { return hyperbolic_cosine(x); }),
    row1("Sinh", [](auto x) { return hyperbolic_sine(x); }),
    row1("Tan", [](auto x) { return tangent(x); }),
    row2("ReluBackward", [](auto dy, auto y) { return y <= 0 ? 0 : dy; }),
    row2p("LeakyReluBackward", [](auto dy, auto x, auto alpha, auto) { return x > 0 ? dy : alpha * dy; }),
    row2p("EluBackward", [](auto dy, auto y, auto alpha, auto) { return y > 0 ? dy : dy * (y + alpha); }),
    row2("SigmoidBackward", [](auto dy, auto y) { return dy * y * (1 - y); }),
    row2("TanhBackward", [](auto dy, auto y) { return dy * (1 - y * y); }),
    row2p("HardSigmoidBackward", [](auto dy, auto x, auto alpha, auto beta) {
      const auto y = alpha * x + beta;
      return y > 0 && y < 1 ? alpha * dy : 0;
    }),
    heavy2("GeluErfBackward", [](auto dy, auto x) {
      const auto bell = math::bell(x);
      return dy * (math::normal_below(x, bell) + x * (decltype(x)(0.3989422804014327) * bell));
    }),
    // With s = 1/(1 + e): ½ (1 + t) = s and ½ (1 − t²) = 2 e s².
    heavy2("GeluTanhBackward", [](auto dy, auto x) {
      const auto e = math::exp(math::smaller(80, -2 * math::gelu_bend(x))), s = math::reciprocal(1 + e);
      return dy * (s + x * (2 * (e * s) * s) * (decltype(x)(0.7978845608028654) + decltype(x)(0.10703222440890037) * x * x));
    }),
    row2("HardSwishBackward", [](auto dy, auto x) { return x <= -3 ? 0 : x >= 3 ? dy : dy * (x / 3 + decltype(x)(0.5)); }),
    heavy2p("SwishBackward", [](auto dy, auto x, auto alpha, auto) {
      const auto s = math::sigmoid(alpha * x);
      return dy * s * (1 + alpha * x * (1 - s));
    }),
    row2p("ClipBackward", [](auto dy, auto y, auto low, auto high) { return y > low && y < high ? dy : 0; }),
};
const int micro_op_count = static_cast<int>(sizeof micro_ops / sizeof micro_ops[0]);

}  // namespace tandem::vector::TANDEM_ISA
