// What attention does to a row of scores, between the products that make it and those that read it.
#include "kernels/cpu/native/vector/math.h"
#include "kernels/cpu/native/vector/parts.h"

namespace tandem::vector::TANDEM_ISA {
namespace {

using std::int64_t;

// Lanes side by side are the order of summation, as in reduce.cpp; rows of scores are padded to whole ones.
constexpr int row_lanes = 16;

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
  T part[row_lanes];
  for (int k = 0; k < row_lanes; ++k) part[k] = *maximum;
  for (int64_t j = 0; j < n; j += row_lanes)
    for (int k = 0; k < row_lanes; ++k) part[k] = s[j + k] > part[k] ? s[j + k] : part[k];
  T top = part[0];
  for (int k = 1; k < row_lanes; ++k) top = part[k] > top ? part[k] : top;
  const T base = top == minus_infinity<T>() ? T(0) : top;
  for (int k = 0; k < row_lanes; ++k) part[k] = 0;
#pragma GCC ivdep
  for (int64_t j = 0; j < n; ++j) s[j] = math::exp(s[j] - base);
  for (int64_t j = 0; j < n; j += row_lanes)
    for (int k = 0; k < row_lanes; ++k) part[k] += s[j + k];
  for (int width = row_lanes / 2; width > 0; width /= 2)
    for (int k = 0; k < width; ++k) part[k] += part[k + width];
  const T before = *maximum == top ? T(1) : math::exp(*maximum - base);  // what earlier keys are multiplied by
  *sum = *sum * before + part[0];
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
