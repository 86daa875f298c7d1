// Products of a few rows with columns that lie one after another: the columns are read once, where they lie.
#include "kernels/cpu/native/vector/lanes.h"
#include "kernels/cpu/native/vector/parts.h"

namespace tandem::vector::TANDEM_ISA {
namespace {

using std::int64_t;
using std::uint16_t;

constexpr int most_rows = 4;
constexpr int together(int rows) { return lanes == 16 || rows <= 2 ? 4 : 2; }  // columns: their sums stay in registers

// The first n numbers, and zeros behind them.
template <class T>
Lanes first(const T* p, int64_t n) {
  T values[lanes] = {};
  __builtin_memcpy(values, p, static_cast<std::size_t>(n) * sizeof(T));
  return load(values);
}
float total(Lanes v) {
  float values[lanes];
  store(values, v);
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) values[i] += values[i + half];
  return values[0];
}

// sums[i·lanes + j] = Σ a[i·a_row + p] · b[j·b_row + p], j < columns: a number of each lane at a time, then the lanes by halves.
template <int rows, int columns, class A, class B>
void sum(const A* a, int64_t a_row, const B* b, int64_t b_row, int64_t inner, float* sums) {
  Lanes sum[rows][columns] = {};
  const auto add = [&](auto&& some) {
    Lanes line[columns];
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j) line[j] = some(b + j * b_row);
#pragma GCC unroll 4
    for (int i = 0; i < rows; ++i) {
      const Lanes one = some(a + i * a_row);
#pragma GCC unroll 4
      for (int j = 0; j < columns; ++j) sum[i][j] += one * line[j];
    }
  };
  int64_t p = 0;
  for (; p + lanes <= inner; p += lanes) {
    // The next columns: a processor's own fetching ahead stops at pages.
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j) __builtin_prefetch(b + (columns + j) * b_row + p);
    add([p](const auto* from) { return load(from + p); });
  }
  if (p < inner) add([p, inner](const auto* from) { return first(from + p, inner - p); });
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) sums[i * lanes + j] = total(sum[i][j]);
}

template <int rows, class A, class B>
void few(const FewRows& q) {
  constexpr int columns = together(rows);
  const A* const a = static_cast<const A*>(q.a);
  for (int64_t j = 0; j < q.columns; j += lanes) {
    const int64_t n = q.columns - j < lanes ? q.columns - j : lanes;
    float sums[rows * lanes] = {};
    const B* const b = static_cast<const B*>(q.b) + j * q.b_row;
    int64_t k = 0;
    for (; k + columns <= n; k += columns) sum<rows, columns>(a, q.a_row, b + k * q.b_row, q.b_row, q.inner, sums + k);
    for (; k < n; ++k) sum<rows, 1>(a, q.a_row, b + k * q.b_row, q.b_row, q.inner, sums + k);
    for (int i = 0; i < rows; ++i) {
      Lanes y = load(sums + i * lanes);
      if (q.bias) y += n == lanes ? load(q.bias + j) : first(q.bias + j, n);
      const Lanes zero{};
      if (q.relu) y = zero > y ? zero : y;
      float whole[lanes];
      store(whole, y);
      const int64_t at = i * q.c_row + j;
      if (!q.narrow_c) {
        __builtin_memcpy(static_cast<float*>(q.c) + at, whole, static_cast<std::size_t>(n) * sizeof(float));
        continue;
      }
      uint16_t halves[lanes];
      store(halves, y);
      __builtin_memcpy(static_cast<uint16_t*>(q.c) + at, halves, static_cast<std::size_t>(n) * sizeof(uint16_t));
    }
  }
}

template <class A, class B>
void of_types(const FewRows& q) {
  constexpr void (*by_rows[most_rows])(const FewRows&) = {few<1, A, B>, few<2, A, B>, few<3, A, B>, few<4, A, B>};
  by_rows[q.rows - 1](q);
}
void few_rows(const FewRows& q) {
  if (q.narrow_a)
    q.narrow_b ? of_types<uint16_t, uint16_t>(q) : of_types<uint16_t, float>(q);
  else
    q.narrow_b ? of_types<float, uint16_t>(q) : of_types<float, float>(q);
}

}  // namespace

const RowProducts row_products{most_rows, few_rows};

}  // namespace tandem::vector::TANDEM_ISA
