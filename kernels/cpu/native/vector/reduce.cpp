// Reductions of contiguous rows to one value, and of many rows element by element.
#include "kernels/cpu/native/vector/math.h"
#include "kernels/cpu/native/vector/parts.h"

namespace tandem::vector::TANDEM_ISA {
namespace {

using std::int64_t;

struct Sum {
  template <class T>
  static T of(T a, T b) { return a + b; }
};
struct Prod {
  template <class T>
  static T of(T a, T b) { return a * b; }
};
// NaN wins.
struct Max {
  template <class T>
  static T of(T a, T b) { return a > b || a != a ? a : b; }
};
struct Min {
  template <class T>
  static T of(T a, T b) { return a < b || a != a ? a : b; }
};

// Lanes side by side are the order of summation: the same for every length of vector.
constexpr int lanes = 64;

template <class T, class Op>
T reduce_row(const T* x, int64_t n, T start) {
  if (n < lanes) {
    for (int64_t i = 0; i < n; ++i) start = Op::of(start, x[i]);
    return start;
  }
  T part[lanes];
  for (int k = 0; k < lanes; ++k) part[k] = start;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int k = 0; k < lanes; ++k) part[k] = Op::of(part[k], x[i + k]);
  for (int k = 0; i + k < n; ++k) part[k] = Op::of(part[k], x[i + k]);
  for (int width = lanes / 2; width > 0; width /= 2)
    for (int k = 0; k < width; ++k) part[k] = Op::of(part[k], part[k + width]);
  return part[0];
}

// `width` columns, `deep` rows at a time.
template <class T, class Op, int width, int deep>
void reduce_columns(T* y, const T* x, int64_t rows, int64_t stride) {
  T part[deep][width];
  for (int k = 0; k < width; ++k) part[0][k] = y[k];
  int64_t r = 0;
  if (rows >= deep) {
    for (int d = 1; d < deep; ++d)
      for (int k = 0; k < width; ++k) part[d][k] = x[d * stride + k];
    for (int k = 0; k < width; ++k) part[0][k] = Op::of(part[0][k], x[k]);
    for (r = deep; r + deep <= rows; r += deep)
      for (int d = 0; d < deep; ++d)
        for (int k = 0; k < width; ++k) part[d][k] = Op::of(part[d][k], x[(r + d) * stride + k]);
    for (int d = 1; d < deep; ++d)
      for (int k = 0; k < width; ++k) part[0][k] = Op::of(part[0][k], part[d][k]);
  }
  for (; r < rows; ++r)
    for (int k = 0; k < width; ++k) part[0][k] = Op::of(part[0][k], x[r * stride + k]);
  for (int k = 0; k < width; ++k) y[k] = part[0][k];
}

template <class T, class Op>
void reduce_rows(T* y, const T* x, int64_t n, int64_t rows, int64_t stride) {
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) reduce_columns<T, Op, lanes, 1>(y + j, x + j, rows, stride);
  for (; j + 16 <= n; j += 16) reduce_columns<T, Op, 16, 4>(y + j, x + j, rows, stride);
  for (; j < n; ++j)
    for (int64_t r = 0; r < rows; ++r) y[j] = Op::of(y[j], x[r * stride + j]);
}

// y = e^(x − max): gives the maximum and the sum.
template <class T>
void exponentials(const T* x, T* y, int64_t n, T* maximum, T* sum) {
  const T top = reduce_row<T, Max>(x, n, x[0]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = math::exp(x[i] - top);
  *maximum = top;
  *sum = reduce_row<T, Sum>(y, n, T(0));
}

}  // namespace

template <class T>
const Reductions<T>& reductions() {
  static constexpr Reductions<T> all = {
      {reduce_row<T, Sum>, reduce_row<T, Max>, reduce_row<T, Min>, reduce_row<T, Prod>},
      {reduce_rows<T, Sum>, reduce_rows<T, Max>, reduce_rows<T, Min>, reduce_rows<T, Prod>},
      exponentials<T>,
  };
  return all;
}
template const Reductions<float>& reductions<float>();
template const Reductions<double>& reductions<double>();

}  // namespace tandem::vector::TANDEM_ISA
