// Det and its gradient, a thread a matrix, in double: by elimination as kernels/cpu/native/det.cpp explains it.
#pragma once
#include "kernels/cuda/bodies/types.h"

#if !defined(__CUDACC__)
#include <math.h>
#endif

namespace tandem::cuda {

template <class T, bool gradient>
struct DetBody {
  static constexpr int threads = 64;
  static constexpr bool cooperative = false;
  const T *x, *dy;  // dy of the gradient
  T* y;             // [count], or x's shape
  double* room;     // n² + 3n of each matrix
  std::int64_t count, n;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < count; i += t.blocks() * threads) {
      double* const lu = room + i * (n * n + 3 * n);
      double *const rows = lu + n * n, *const columns = rows + n, *const w = columns + n;
      for (std::int64_t k = 0; k < n * n; ++k) lu[k] = static_cast<double>(x[i * n * n + k]);
      const double sign = eliminate(lu, rows, columns);
      if constexpr (gradient)
        adjugate(lu, rows, columns, w, product(lu, sign * static_cast<double>(dy[i]), n - 1), y + i * n * n);
      else
        y[i] = static_cast<T>(product(lu, sign, n));
    }
  }

 private:
  TANDEM_DEVICE double product(const double* lu, double start, std::int64_t pivots) const {
    for (std::int64_t k = 0; k < pivots; ++k) start *= lu[k * n + k];
    return start;
  }
  TANDEM_DEVICE static void exchange(double& a, double& b) {
    const double kept = a;
    a = b;
    b = kept;
  }
  TANDEM_DEVICE double eliminate(double* lu, double* rows, double* columns) const {
    double sign = 1;
    for (std::int64_t k = 0; k < n; ++k) rows[k] = columns[k] = static_cast<double>(k);
    for (std::int64_t k = 0; k + 1 < n; ++k) {
      std::int64_t row = k, column = k;
      for (std::int64_t i = k; i < n; ++i)
        for (std::int64_t j = k; j < n; ++j)
          if (fabs(lu[i * n + j]) > fabs(lu[row * n + column])) {
            row = i;
            column = j;
          }
      if (row != k) {
        for (std::int64_t j = 0; j < n; ++j) exchange(lu[row * n + j], lu[k * n + j]);
        exchange(rows[row], rows[k]);
        sign = -sign;
      }
      if (column != k) {
        for (std::int64_t i = 0; i < n; ++i) exchange(lu[i * n + column], lu[i * n + k]);
        exchange(columns[column], columns[k]);
        sign = -sign;
      }
      const double pivot = lu[k * n + k];
      if (pivot == 0) continue;
      for (std::int64_t i = k + 1; i < n; ++i) {
        const double factor = lu[i * n + k] /= pivot;
        for (std::int64_t j = k + 1; j < n; ++j) lu[i * n + j] -= factor * lu[k * n + j];
      }
    }
    return sign;
  }
  TANDEM_DEVICE void adjugate(const double* lu, const double* rows, const double* columns, double* w, double before, T* dx) const {
    const std::int64_t last = n - 1;
    for (std::int64_t column = 0; column < n; ++column) {
      for (std::int64_t i = 0; i < n; ++i) w[i] = i == column ? 1 : 0;
      for (std::int64_t i = column + 1; i < n; ++i)
        for (std::int64_t j = column; j < i; ++j) w[i] -= lu[i * n + j] * w[j];
      for (std::int64_t i = 0; i < last; ++i) w[i] = before == 0 ? 0 : lu[last * n + last] * w[i] - lu[i * n + last] * w[last];
      for (std::int64_t i = last - 1; i >= 0; --i) {
        for (std::int64_t j = i + 1; j < last; ++j) w[i] -= lu[i * n + j] * w[j];
        if (before != 0) w[i] /= lu[i * n + i];
      }
      for (std::int64_t i = 0; i < n; ++i)
        dx[static_cast<std::int64_t>(rows[column]) * n + static_cast<std::int64_t>(columns[i])] = static_cast<T>(before * w[i]);
    }
  }
};

}  // namespace tandem::cuda
