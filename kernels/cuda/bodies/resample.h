// Resample: sums of entries that tables name, along one axis or two neighbours.
#pragma once
#include "kernels/cuda/bodies/index.h"
#include "kernels/cuda/bodies/types.h"

namespace tandem::cuda {

// Entry i is Σ weight[k] · x[index[k]] over k in [starts[i], starts[i + 1]); without weights all are 1, without starts it is x[i].
// What a table names outside of the axis is left out.
template <class W>
struct ResampleAxis {
  Divider size;             // of y
  std::int32_t n, entries;  // of x, of index
  const std::int32_t *starts, *index;
  const W* weight;
  TANDEM_DEVICE std::int32_t begin(std::int32_t i) const { return !starts ? i : starts[i] > 0 ? starts[i] : 0; }
  TANDEM_DEVICE std::int32_t end(std::int32_t i) const { return !starts ? i + 1 : starts[i + 1] < entries ? starts[i + 1] : entries; }
  TANDEM_DEVICE std::int32_t from(std::int32_t k) const { return starts ? index[k] : k; }
  TANDEM_DEVICE bool has(std::int32_t j) const { return j >= 0 && j < n; }
  TANDEM_DEVICE W by(std::int32_t k) const { return weight ? weight[k] : W(1); }
};

// y[outer, i, j, inner] of x[outer, n, n', inner], as they lie in memory.
template <class T>
struct ResampleBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  using W = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const T* x;
  T* y;
  std::uint32_t elements;  // of y
  Divider inner;
  ResampleAxis<W> first, second;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t e = t.block() * threads + t.thread(); e < elements; e += t.blocks() * threads) {
      const std::uint32_t columns = inner.divide(static_cast<std::uint32_t>(e)), rows = second.size.divide(columns),
                          outer = first.size.divide(rows);
      const std::int32_t c = static_cast<std::int32_t>(static_cast<std::uint32_t>(e) - columns * inner.divisor);
      const std::int32_t j = static_cast<std::int32_t>(columns - rows * second.size.divisor),
                         i = static_cast<std::int32_t>(rows - outer * first.size.divisor);
      const std::int64_t block = static_cast<std::int64_t>(outer) * first.n;
      if constexpr (std::is_integral_v<T>) {  // one entry is moved
        const std::int32_t r = first.from(first.begin(i)), s = second.from(second.begin(j));
        y[e] = first.has(r) && second.has(s) && first.begin(i) < first.end(i) && second.begin(j) < second.end(j)
                   ? x[((block + r) * second.n + s) * inner.divisor + c]
                   : T(0);
      } else {
        Compute<T> sum = 0;
        for (std::int32_t k = first.begin(i); k < first.end(i); ++k) {
          const std::int32_t r = first.from(k);
          if (!first.has(r)) continue;
          Compute<T> line = 0;
          for (std::int32_t l = second.begin(j); l < second.end(j); ++l) {
            const std::int32_t s = second.from(l);
            if (second.has(s)) line += static_cast<Compute<T>>(second.by(l)) * load(x[((block + r) * second.n + s) * inner.divisor + c]);
          }
          sum += static_cast<Compute<T>>(first.by(k)) * line;
        }
        y[e] = store<T>(sum);
      }
    }
  }
};

}  // namespace tandem::cuda
