// Blocks of attention: small products, and what is done to a row of scores between them.
#include "kernels/cpu/native/vector/math.h"
#include "kernels/cpu/native/vector/parts.h"

namespace tandem::vector::TANDEM_ISA {
namespace {

using std::int64_t;

#if defined(__AVX512F__)
constexpr int lanes = 16, most_vectors = 4, most_rows = 6;
#elif defined(__AVX2__)
constexpr int lanes = 8, most_vectors = 2, most_rows = 6;
#else
constexpr int lanes = 4, most_vectors = 2, most_rows = 4;
#endif
using Lanes [[gnu::vector_size(lanes * sizeof(float)), gnu::aligned(alignof(float)), gnu::may_alias]] = float;

Lanes load(const float* p) { return *reinterpret_cast<const Lanes*>(p); }
void store(float* p, Lanes v) { *reinterpret_cast<Lanes*>(p) = v; }

// Sums stay in registers: every loop over vectors and rows is unrolled whole.
template <int rows, int vectors>
void tile(int64_t inner, const float* a, int64_t a_row, int64_t a_column, const float* b, int64_t b_row, float* c, int64_t c_row, bool add) {
  Lanes sum[rows][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) sum[r][v] = add ? load(c + r * c_row + v * lanes) : Lanes{};
  for (int64_t k = 0; k < inner; ++k) {
    Lanes right[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) right[v] = load(b + k * b_row + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) {
      const float left = a[r * a_row + k * a_column];
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) sum[r][v] += left * right[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) store(c + r * c_row + v * lanes, sum[r][v]);
}

template <int rows, int vectors>
void tiles(int64_t height, int64_t inner, const float* a, int64_t a_row, int64_t a_column, const float* b, int64_t b_row, float* c, int64_t c_row, bool add) {
  int64_t i = 0;
  for (; i + rows <= height; i += rows) tile<rows, vectors>(inner, a + i * a_row, a_row, a_column, b, b_row, c + i * c_row, c_row, add);
  if constexpr (rows > 1)
    if (i < height) tiles<rows - 1, vectors>(height - i, inner, a + i * a_row, a_row, a_column, b, b_row, c + i * c_row, c_row, add);
}

void product(int64_t rows, int64_t columns, int64_t inner, const float* a, int64_t a_row, int64_t a_column, const float* b, int64_t b_row, float* c, int64_t c_row, bool add) {
  int64_t j = 0;
  for (; j + most_vectors * lanes <= columns; j += most_vectors * lanes) tiles<most_rows, most_vectors>(rows, inner, a, a_row, a_column, b + j, b_row, c + j, c_row, add);
  for (; j < columns; j += lanes) tiles<most_rows, 1>(rows, inner, a, a_row, a_column, b + j, b_row, c + j, c_row, add);
}
void product(int64_t rows, int64_t columns, int64_t inner, const double* a, int64_t a_row, int64_t a_column, const double* b, int64_t b_row, double* c, int64_t c_row, bool add) {
  for (int64_t i = 0; i < rows; ++i) {
    double* const out = c + i * c_row;
    if (!add)
      for (int64_t j = 0; j < columns; ++j) out[j] = 0;
    for (int64_t k = 0; k < inner; ++k) {
      const double left = a[i * a_row + k * a_column];
#pragma GCC ivdep
      for (int64_t j = 0; j < columns; ++j) out[j] += left * b[k * b_row + j];
    }
  }
}

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
  static constexpr Attending<T> all = {product, attend<T>, attend_backward<T>};
  return all;
}
template const Attending<float>& attending<float>();
template const Attending<double>& attending<double>();

}  // namespace tandem::vector::TANDEM_ISA
