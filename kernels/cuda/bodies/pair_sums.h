// The end of sums by column whose parts lie in memory: what blocks left, added in the same order in every run.
#pragma once
#include "kernels/cuda/bodies/types.h"

namespace tandem::cuda {

inline constexpr int finish_columns = 8, finish_rows = 32;  // of a block: neighbours in memory, and threads that share a column

// first[c] = Σ partial[part][0][c], second[c] = Σ partial[part][1][c]; either may be null.
template <class C>
struct PairSumsBody {
  static constexpr int threads = finish_columns * finish_rows;
  static constexpr bool cooperative = true;
  const C* partial;
  C *first, *second;
  std::int64_t n, parts;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const int column = t.thread() % finish_columns, row = t.thread() / finish_columns;
    const std::int64_t c = t.block() * finish_columns + column;
    C sum = 0;
    if (c < 2 * n)
      for (std::int64_t p = row; p < parts; p += finish_rows) sum += partial[p * 2 * n + c];
    C* const part = t.template shared<C, threads, 0>();
    part[t.thread()] = sum;
    for (int half = finish_rows / 2; half > 0; half /= 2) {
      t.sync();
      if (row < half) part[t.thread()] += part[t.thread() + half * finish_columns];
    }
    if (row != 0 || c >= 2 * n) return;
    C* const to = c < n ? first : second;
    if (to) to[c < n ? c : c - n] = part[column];
  }
};

}  // namespace tandem::cuda
