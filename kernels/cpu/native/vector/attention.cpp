// What attention does to a row of scores, between the products that make it and those that read it.
#include "kernels/cpu/native/vector/math.h"
#include "kernels/cpu/native/vector/parts.h"

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
  const Half h = Op::of(Half(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)), Half(__builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)));
  const Quarter q = Op::of(Quarter(__builtin_shufflevector(h, h, 0, 1, 2, 3)), Quarter(__builtin_shufflevector(h, h, 4, 5, 6, 7)));
  return Op::of(Op::of(T(q[0]), T(q[2])), Op::of(T(q[1]), T(q[3])));
}

template <class T>
T minus_infinity() { return static_cast<T>(-__builtin_inf()); }

// What the softmax is of.
template <class T>
void finish_scores(const ScoreRow<T>& r) {
  T* const s = r.scores;
  const int64_t n = r.visible;
  if (r.keep) {
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) s[j] = r.keep[j] != 0 ? s[j] * r.scale : r.fill;
  } else if (r.bias) {
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) s[j] = s[j] * r.scale + r.bias[j];
  } else {
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) s[j] = s[j] * r.scale;
  }
  for (int64_t j = n; j < r.width; ++j) s[j] = minus_infinity<T>();
}

template <class T>
T attend(const ScoreRow<T>& r, T* maximum, T* sum) {
  finish_scores(r);
  T* const s = r.scores;
  const int64_t n = r.width;
  Line<T> most = all(*maximum);
  for (int64_t j = 0; j < n; j += row_lanes) most = Max::of(Line<T>(line(s + j)), most);
  const T top = across<Max, T>(most);
  const T base = top == minus_infinity<T>() ? T(0) : top;
#pragma GCC ivdep
  for (int64_t j = 0; j < n; ++j) s[j] = math::exp(s[j] - base);
  Line<T> total{};
  for (int64_t j = 0; j < n; j += row_lanes) total += line(s + j);
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
  finish_scores(r);
#pragma GCC ivdep
  for (int64_t j = 0; j < n; ++j) s[j] = math::exp(s[j] - log_sum);
  if (r.words) {
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) {
      const T kept = r.words[j] >= r.threshold ? r.kept : T(0);
      d[j] = s[j] * (d[j] * kept - delta) * r.scale;
      s[j] *= kept;
    }
  } else {
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) d[j] = s[j] * (d[j] - delta) * r.scale;
  }
  if (r.keep)
    for (int64_t j = 0; j < r.visible; ++j) d[j] = r.keep[j] != 0 ? d[j] : T(0);
  for (int64_t j = r.visible; j < n; ++j) d[j] = 0;  // of NaN, too
}

}  // namespace

template <class T>
const Attending<T>& attending() {
  static constexpr Attending<T> all = {attend<T>, attend_backward<T>};
  return all;
}
template const Attending<float>& attending<float>();
template const Attending<double>& attending<double>();

}  // namespace tandem::vector::TANDEM_ISA
