// What attention does to a row of scores, between the products that make it and those that read it.
#include "kernels/cpu/native/vector/math.h"
#include "kernels/cpu/native/vector/parts.h"
#include "kernels/cpu/native/vector/wide.h"

namespace tandem::vector::TANDEM_ISA {
namespace {

using std::int64_t;

// Sixteen numbers side by side are the order of summation on every machine; rows of scores are padded to whole lines.
constexpr int row_lanes = 16;
template <class T, int lanes>
struct Vector {
  typedef T type [[gnu::vector_size(lanes * sizeof(T)), gnu::aligned(alignof(T)), gnu::may_alias]];
};
template <class T>
using Line = typename Vector<T, row_lanes>::type;
template <class T>
Line<T>& line(T* p) { return *reinterpret_cast<Line<T>*>(p); }
template <class T>
Line<T> all(T x) { return x - Line<T>{}; }

struct Sum {
  template <class V>
  static V of(V a, V b) { return a + b; }
};
struct Max {
  template <class V>
  static V of(V a, V b) { return a > b ? a : b; }
};
template <class Op, class T>
T across(Line<T> v) {
  using Half = typename Vector<T, 8>::type;
  using Quarter = typename Vector<T, 4>::type;
  const Half h = Op::of(Half(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)),
                        Half(__builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)));
  const Quarter q = Op::of(Quarter(__builtin_shufflevector(h, h, 0, 1, 2, 3)), Quarter(__builtin_shufflevector(h, h, 4, 5, 6, 7)));
  return Op::of(Op::of(T(q[0]), T(q[2])), Op::of(T(q[1]), T(q[3])));
}

template <class T>
T minus_infinity() { return static_cast<T>(-__builtin_inf()); }

// What the softmax is of, but for a factor above 0, which is returned.
template <class T>
T finish_scores(const ScoreRow<T>& r) {
  T* const s = r.scores;
  const int64_t n = r.visible;
  for (int64_t j = n; j < r.width; ++j) s[j] = minus_infinity<T>();
  if (r.keep) {
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) s[j] = r.keep[j] != 0 ? s[j] * r.scale : r.fill;
  } else if (r.bias) {
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) s[j] = s[j] * r.scale + r.bias[j];
  } else if (r.scale > 0) {
    return r.scale;
  } else {
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) s[j] = s[j] * r.scale;
  }
  return 1;
}

// s becomes e^(s·factor − base), the product rounded as it is for the maximum, so that the largest is 1; `use` has each line of them,
// in order. n is a whole number of lines.
template <class T, class Use>
void exponentials(T* s, int64_t n, T factor, T base, const Use& use) {
#ifdef TANDEM_WIDE
  if constexpr (sizeof(T) == sizeof(float)) {
    for (int64_t j = 0; j < n; j += row_lanes) {
      Wide score = Wide::load(s + j) * factor;
      asm("" : "+v"(score.v));  // no fused multiply-add
      const Wide e = math::exp(score - base);
      e.store(s + j);
      use(j, Line<T>(e.v));
    }
    return;
  }
#endif
  for (int64_t j = 0; j < n; j += row_lanes) line(s + j) *= factor;
#pragma GCC ivdep
  for (int64_t j = 0; j < n; ++j) s[j] = math::exp(s[j] - base);
  for (int64_t j = 0; j < n; j += row_lanes) use(j, Line<T>(line(s + j)));
}

template <class T>
T attend(const ScoreRow<T>& r, T* maximum, T* sum) {
  const T factor = finish_scores(r);
  T* const s = r.scores;
  const int64_t n = r.width;
  Line<T> most = all(*maximum);
  for (int64_t j = 0; j < n; j += row_lanes) most = Max::of(Line<T>(line(s + j) * factor), most);
  const T top = across<Max, T>(most);
  const T base = top == minus_infinity<T>() ? T(0) : top;
  Line<T> total{};
  exponentials(s, n, factor, base, [&](int64_t, Line<T> e) { total += e; });
  const T before = *maximum == top ? T(1) : math::exp(*maximum - base);  // what earlier keys are multiplied by
  *sum = *sum * before + across<Sum, T>(total);
  *maximum = top;
  if (r.words) {
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) s[j] = r.words[j] >= r.threshold ? s[j] * r.kept : T(0);
  }
  return before;
}

template <class T>
void attend_backward(const ScoreRow<T>& r, T* gradients, T log_sum, T delta) {
  T* const s = r.scores;
  T* const d = gradients;
  const int64_t n = r.width;
  if (log_sum == static_cast<T>(__builtin_inf())) {  // a row of zeros
    for (int64_t j = 0; j < n; ++j) s[j] = d[j] = 0;
    return;
  }
  const T factor = finish_scores(r);
  if (r.words) {
    exponentials(s, n, factor, log_sum, [](int64_t, Line<T>) {});
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) {
      const T kept = r.words[j] >= r.threshold ? r.kept : T(0);
      d[j] = s[j] * (d[j] * kept - delta) * r.scale;
      s[j] *= kept;
    }
  } else {
    const Line<T> minus = all(delta), scale = all(r.scale);
    exponentials(s, n, factor, log_sum, [&](int64_t j, Line<T> e) { line(d + j) = e * (line(d + j) - minus) * scale; });
  }
  if (r.keep)
    for (int64_t j = 0; j < r.visible; ++j) d[j] = r.keep[j] != 0 ? d[j] : T(0);
  for (int64_t j = r.visible; j < n; ++j) d[j] = 0;  // of NaN, too
}

inline float number(std::uint16_t x) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(x) << 16); }
template <class T>
T number(T x) { return x; }

// c + a·b, rounded as products do it: once, where the processor multiplies and adds at once.
template <class T>
T multiplied(T a, T b, T c) {
#ifdef __FMA__
  if constexpr (sizeof(T) == sizeof(float))
    return __builtin_fmaf(a, b, c);
  else
    return __builtin_fma(a, b, c);
#else
  return c + a * b;
#endif
}

// Each in the order in which products sum it, so that a query of one key gets a gradient of exactly 0. Eight rows hide each other's
// latency.
template <class T, class Stored>
void inner_products(const T* a, const Stored* b, int64_t b_row, int64_t rows, int64_t n, T* sums) {
  constexpr int64_t together = 8;
  int64_t i = 0;
  for (; i + together <= rows; i += together, a += together * n, b += together * b_row) {
    T sum[together] = {};
    for (int64_t j = 0; j < n; ++j)
      for (int64_t k = 0; k < together; ++k) sum[k] = multiplied(a[k * n + j], T(number(b[k * b_row + j])), sum[k]);
    for (int64_t k = 0; k < together; ++k) sums[i + k] = sum[k];
  }
  for (; i < rows; ++i, a += n, b += b_row) {
    T sum = 0;
    for (int64_t j = 0; j < n; ++j) sum = multiplied(a[j], T(number(b[j])), sum);
    sums[i] = sum;
  }
}
template <class T>
void inner_products_of(const T* a, const void* b, bool narrow, int64_t b_row, int64_t rows, int64_t n, T* sums) {
  narrow ? inner_products(a, static_cast<const std::uint16_t*>(b), b_row, rows, n, sums)
         : inner_products(a, static_cast<const T*>(b), b_row, rows, n, sums);
}

}  // namespace

template <class T>
const Attending<T>& attending() {
  static constexpr Attending<T> all = {attend<T>, attend_backward<T>, inner_products_of<T>};
  return all;
}
template const Attending<float>& attending<float>();
template const Attending<double>& attending<double>();

}  // namespace tandem::vector::TANDEM_ISA
