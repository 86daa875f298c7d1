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

template <class T, class Op>
void reduce_rows(T* y, const T* x, int64_t n) {
#pragma GCC ivdep
  for (int64_t j = 0; j < n; ++j) y[j] = Op::of(y[j], x[j]);
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
