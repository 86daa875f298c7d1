// Gaussian elimination of a square matrix with the largest pivot of all that is left: P x Q = L U.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace tandem::native {

// In double whatever x is: rows and columns as they were exchanged, L below the diagonal of `lu` and U from it on.
struct Elimination {
  std::int64_t n;
  double *lu, *rows, *columns;  // n·n, n, n
  double sign = 1;

  template <class T>
  void run(const T* x) {
    std::copy_n(x, n * n, lu);
    for (std::int64_t i = 0; i < n; ++i) rows[i] = columns[i] = static_cast<double>(i);
    for (std::int64_t k = 0; k + 1 < n; ++k) {
      std::int64_t row = k, column = k;
      for (std::int64_t i = k; i < n; ++i)
        for (std::int64_t j = k; j < n; ++j)
          if (std::abs(lu[i * n + j]) > std::abs(lu[row * n + column])) row = i, column = j;
      if (row != k) {
        std::swap_ranges(lu + row * n, lu + row * n + n, lu + k * n);
        std::swap(rows[row], rows[k]);
        sign = -sign;
      }
      if (column != k) {
        for (std::int64_t i = 0; i < n; ++i) std::swap(lu[i * n + column], lu[i * n + k]);
        std::swap(columns[column], columns[k]);
        sign = -sign;
      }
      const double pivot = lu[k * n + k];
      if (pivot == 0) continue;  // all that is left is 0
      for (std::int64_t i = k + 1; i < n; ++i) {
        const double factor = lu[i * n + k] /= pivot;
        for (std::int64_t j = k + 1; j < n; ++j) lu[i * n + j] -= factor * lu[k * n + j];
      }
    }
  }
  // Of the first k pivots.
  double product(std::int64_t k) const {
    double all = sign;
    for (std::int64_t i = 0; i < k; ++i) all *= lu[i * n + i];
    return all;
  }
};

}  // namespace tandem::native
