// c[rows×columns] = a[rows×inner]·b[inner×columns] (+ c where `accumulate`), for float and double and any strides of a
// and b. Each element is summed over `inner` in order, so the result does not depend on how callers split the rows.
#pragma once
#include <algorithm>
#include <cstdint>

namespace tandem::native {

template <class T>
struct Matrix {
  const T* data;
  std::int64_t row, column;  // strides in elements
};

template <class T>
void gemm(std::int64_t rows, std::int64_t columns, std::int64_t inner, Matrix<T> a, Matrix<T> b, T* c, std::int64_t row_c,
          bool accumulate) {
  constexpr std::int64_t tile_rows = 4, tile_columns = 32, tile_inner = 128;
  T packed_a[tile_inner][tile_rows], packed_b[tile_inner][tile_columns];
  if (inner == 0 && !accumulate)
    for (std::int64_t i = 0; i < rows; ++i) std::fill_n(c + i * row_c, columns, T(0));
  for (std::int64_t j = 0; j < columns; j += tile_columns) {
    const std::int64_t width = std::min(tile_columns, columns - j);
    for (std::int64_t k = 0; k < inner; k += tile_inner) {
      const std::int64_t depth = std::min(tile_inner, inner - k);
      for (std::int64_t p = 0; p < depth; ++p)
        for (std::int64_t q = 0; q < tile_columns; ++q)
          packed_b[p][q] = q < width ? b.data[(k + p) * b.row + (j + q) * b.column] : T(0);
      for (std::int64_t i = 0; i < rows; i += tile_rows) {
        const std::int64_t height = std::min(tile_rows, rows - i);
        for (std::int64_t p = 0; p < depth; ++p)
          for (std::int64_t r = 0; r < tile_rows; ++r)
            packed_a[p][r] = r < height ? a.data[(i + r) * a.row + (k + p) * a.column] : T(0);
        T sum[tile_rows][tile_columns] = {};
        for (std::int64_t p = 0; p < depth; ++p)
          for (std::int64_t r = 0; r < tile_rows; ++r)
            for (std::int64_t q = 0; q < tile_columns; ++q) sum[r][q] += packed_a[p][r] * packed_b[p][q];
        const bool add = accumulate || k > 0;
        for (std::int64_t r = 0; r < height; ++r) {
          T* const out = c + (i + r) * row_c + j;
          for (std::int64_t q = 0; q < width; ++q) out[q] = add ? out[q] + sum[r][q] : sum[r][q];
        }
      }
    }
  }
}

}  // namespace tandem::native
