// Reductions over any axes of a strided tensor. A block computes `columns` outputs with threads/columns threads each;
// `splits` blocks share the reduced elements of the same outputs, and a second pass combines what they found, so that
// the order of summation never depends on timing.
#pragma once
#include "kernels/cuda/bodies/index.h"
#include "kernels/cuda/bodies/pack.h"

namespace tandem::cuda {

enum class Reduce : std::uint8_t { sum, max, min, product };

template <class C>
TANDEM_DEVICE C reduce_identity(Reduce op) {
  if (op == Reduce::sum) return C(0);
  if (op == Reduce::product) return C(1);
  if constexpr (std::is_floating_point_v<C>)
    return op == Reduce::max ? -C(INFINITY) : C(INFINITY);
  else
    return op == Reduce::max ? static_cast<C>(std::int64_t{1} << (8 * sizeof(C) - 1))
                             : static_cast<C>(~(std::int64_t{1} << (8 * sizeof(C) - 1)));
}
template <class C>
TANDEM_DEVICE C reduce_pair(Reduce op, C a, C b) {
  switch (op) {
    case Reduce::sum: return a + b;
    case Reduce::product: return a * b;
    case Reduce::max: return a != a ? a : b != b ? b : a > b ? a : b;
    case Reduce::min: return a != a ? a : b != b ? b : a < b ? a : b;
  }
  return a;
}

template <class In, class Out>
struct ReductionBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = true;

  const In* x;
  Out* y;                         // [splits, outputs]
  Reduce op;
  bool reduced_innermost;         // neighbouring threads take neighbouring reduced elements, else neighbouring outputs
  std::int32_t columns, splits;   // columns: a power of two
  std::uint32_t outputs, reduced;
  double scale;                   // of the result,
  std::int64_t divisor;           // and by what one of integers is divided, towards zero
  Nest<1> kept, inner;            // where an output's elements begin, and where its reduced elements lie from there

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    using C = Compute<In>;
    const int rows = threads / columns;
    const int row = reduced_innermost ? t.thread() % rows : t.thread() / columns;
    const int column = reduced_innermost ? t.thread() / rows : t.thread() % columns;
    const std::uint32_t split = static_cast<std::uint32_t>(t.block() % splits);
    const std::int64_t output = t.block() / splits * columns + column;
    const std::uint32_t share = (reduced + static_cast<std::uint32_t>(splits) - 1) / static_cast<std::uint32_t>(splits);
    const std::uint32_t end = (split + 1) * share < reduced ? (split + 1) * share : reduced;
    C value = reduce_identity<C>(op);
    if (output < outputs) {
      const In* const from = x + kept.offset(static_cast<std::uint32_t>(output));
      const std::uint32_t begin = split * share + static_cast<std::uint32_t>(row), step = static_cast<std::uint32_t>(rows);
      if (inner.rank == 1) {  // evenly spaced, as most are: no index is divided
        const In* at = from + inner.offset(begin);
        const std::int64_t stride = std::int64_t{inner.strides[0][0]} * rows;
        if (op == Reduce::sum) {
          TANDEM_UNROLL(unroll 8)
          for (std::uint32_t r = begin; r < end; r += step, at += stride) value += load(*at);
        } else {
          for (std::uint32_t r = begin; r < end; r += step, at += stride) value = reduce_pair<C>(op, value, load(*at));
        }
      } else {
        for (std::uint32_t r = begin; r < end; r += step) value = reduce_pair<C>(op, value, load(from[inner.offset(r)]));
      }
    }
    C* const part = t.template shared<C, threads, 0>();
    part[row * columns + column] = value;
    for (int half = rows / 2; half > 0; half /= 2) {
      t.sync();
      if (row < half)
        part[row * columns + column] = reduce_pair<C>(op, part[row * columns + column], part[(row + half) * columns + column]);
    }
    t.sync();
    if (row == 0 && output < outputs) {
      C result = part[column];
      if constexpr (std::is_floating_point_v<C>)
        result = scale == 1.0 ? result : static_cast<C>(result * static_cast<C>(scale));
      else
        result = divisor > 1 ? static_cast<C>(result / divisor) : result;
      y[static_cast<std::int64_t>(split) * outputs + output] = store<Out>(static_cast<Compute<Out>>(result));
    }
  }
};

}  // namespace tandem::cuda
