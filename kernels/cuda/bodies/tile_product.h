// Products of tiles in shared memory by one warp: 16 rows times 8·tiles columns. 16-bit elements go by tensor cores, others by plain
// multiplications. Thread 4·g + q holds the elements of rows g and g + 8 and of columns 2q and 2q + 1 of each tile of 8 columns, as
// two of the first row, two of the second. Rows of tiles begin at multiples of 16 bytes, and are not as long as a multiple of 128.
#pragma once
#include "kernels/cuda/bodies/pack.h"

namespace tandem::cuda {

template <class T>
inline constexpr bool by_tensor_cores = sizeof(T) == 2;
// Elements that a row of shared memory is longer than what it holds, so that eight rows lie in different banks.
template <class T>
inline constexpr int row_padding = static_cast<int>(16 / sizeof(T));

struct WarpLane {
  int row, column;  // the first of its rows, the first of its columns
  template <class Thread>
  TANDEM_DEVICE explicit WarpLane(const Thread& t) : row(t.thread() % 32 / 4), column(t.thread() % 4 * 2) {}
};

template <class T>
TANDEM_DEVICE std::uint32_t pair_of(const T* at) {
  const auto* const pair = as_aligned<const std::uint32_t>(at);
#if defined(__CUDACC__)
  return *pair;
#else
  (void)pair;
  return at[0].bits | static_cast<std::uint32_t>(at[1].bits) << 16;
#endif
}

// a's part for `multiply`, of rows of `stride` elements, from element k on.
template <class T>
TANDEM_DEVICE void load_rows(std::uint32_t (&part)[4], const WarpLane& lane, const T* a, int stride, int k) {
  const T* const from = a + lane.row * stride + k + lane.column;
  part[0] = pair_of(from);
  part[1] = pair_of(from + 8 * stride);
  part[2] = pair_of(from + 8);
  part[3] = pair_of(from + 8 * stride + 8);
}

// c += a[16, inner]·b[8·tiles, inner]ᵀ
template <class T, int tiles, int inner, class Thread>
TANDEM_DEVICE void multiply_rows(const Thread& t, float (&c)[tiles][4], const T* a, int a_stride, const T* b, int b_stride) {
  const WarpLane lane(t);
  if constexpr (by_tensor_cores<T>) {
    for (int k = 0; k < inner; k += 16) {
      std::uint32_t rows[4], columns[2];
      load_rows(rows, lane, a, a_stride, k);
      TANDEM_UNROLL(unroll)
      for (int n = 0; n < tiles; ++n) {
        const T* const from = b + (8 * n + lane.row) * b_stride + k + lane.column;
        columns[0] = pair_of(from);
        columns[1] = pair_of(from + 8);
        t.template multiply<std::is_same_v<T, Half>>(c[n], rows, columns);
      }
    }
  } else {
    for (int k = 0; k < inner; k += 4) {
      const Pack<T, 4> upper = *as_aligned<const Pack<T, 4>>(a + lane.row * a_stride + k),
                       lower = *as_aligned<const Pack<T, 4>>(a + (lane.row + 8) * a_stride + k);
      TANDEM_UNROLL(unroll)
      for (int n = 0; n < tiles; ++n)
        TANDEM_UNROLL(unroll)
        for (int i = 0; i < 2; ++i) {
          const Pack<T, 4> column = *as_aligned<const Pack<T, 4>>(b + (8 * n + lane.column + i) * b_stride + k);
          TANDEM_UNROLL(unroll)
          for (int e = 0; e < 4; ++e) {
            c[n][i] += upper.v[e] * column.v[e];
            c[n][2 + i] += lower.v[e] * column.v[e];
          }
        }
    }
  }
}

// c += a[16, inner]·b[inner, 8·tiles]
template <class T, int tiles, int inner, class Thread>
TANDEM_DEVICE void multiply_columns(const Thread& t, float (&c)[tiles][4], const T* a, int a_stride, const T* b, int b_stride) {
  const WarpLane lane(t);
  if constexpr (by_tensor_cores<T>) {
    for (int k = 0; k < inner; k += 16) {
      std::uint32_t rows[4], columns[2];
      load_rows(rows, lane, a, a_stride, k);
      const T* const from = b + (k + t.thread() % 16) * b_stride;
      TANDEM_UNROLL(unroll)
      for (int n = 0; n < tiles; ++n) {
        t.load_columns(columns, from + 8 * n);
        t.template multiply<std::is_same_v<T, Half>>(c[n], rows, columns);
      }
    }
  } else {
    for (int k = 0; k < inner; k += 4) {
      const Pack<T, 4> upper = *as_aligned<const Pack<T, 4>>(a + lane.row * a_stride + k),
                       lower = *as_aligned<const Pack<T, 4>>(a + (lane.row + 8) * a_stride + k);
      TANDEM_UNROLL(unroll)
      for (int e = 0; e < 4; ++e)
        TANDEM_UNROLL(unroll)
        for (int n = 0; n < tiles; ++n) {
          const Pack<T, 2> pair = *as_aligned<const Pack<T, 2>>(b + (k + e) * b_stride + 8 * n + lane.column);
          TANDEM_UNROLL(unroll)
          for (int i = 0; i < 2; ++i) {
            c[n][i] += upper.v[e] * pair.v[i];
            c[n][2 + i] += lower.v[e] * pair.v[i];
          }
        }
    }
  }
}

}  // namespace tandem::cuda
