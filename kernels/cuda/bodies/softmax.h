// Softmax along one axis of a tensor: element c of line r lies at offset(r) + c · stride.
#pragma once
#include "kernels/cuda/bodies/index.h"
#include "kernels/cuda/bodies/types.h"

#if !defined(__CUDACC__)
#include <math.h>
#endif

namespace tandem::cuda {

template <class C>
TANDEM_DEVICE C larger(C a, C b) {
  return a != a ? a : b != b ? b : a > b ? a : b;
}

// y = softmax(x) or log softmax(x), a block a line. The largest goes first: x - (top + log Σ) would lose digits of large numbers.
// Y may be another type than T, both of at most 32 bits.
template <class T, class Y>
struct SoftmaxBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = true;
  const T* x;
  Y* y;
  std::int64_t length, stride;
  Nest<1> lines;
  bool logarithm;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    using C = Compute<T>;
    const std::int64_t base = lines.offset(static_cast<std::uint32_t>(t.block()));
    C top = -C(INFINITY);
    for (std::int64_t c = t.thread(); c < length; c += threads) top = larger(top, load(x[base + c * stride]));
    top = combine_block<threads, 0>(t, top, [](C a, C b) { return larger(a, b); });
    C sum = 0;
    for (std::int64_t c = t.thread(); c < length; c += threads) sum += exp(load(x[base + c * stride]) - top);
    sum = combine_block<threads, 1>(t, sum, [](C a, C b) { return a + b; });
    const C log_sum = log(sum);
    for (std::int64_t c = t.thread(); c < length; c += threads) {
      const C v = load(x[base + c * stride]);
      y[base + c * stride] = store<Y>(logarithm ? v - top - log_sum : exp(v - top) / sum);
    }
  }
};

// The same for short or strided lines, a thread a line.
template <class T, class Y>
struct SoftmaxThreadBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const T* x;
  Y* y;
  std::int64_t length, stride;
  std::uint32_t count;
  Nest<1> lines;
  bool logarithm;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    using C = Compute<T>;
    for (std::int64_t r = t.block() * threads + t.thread(); r < count; r += t.blocks() * threads) {
      const std::int64_t base = lines.offset(static_cast<std::uint32_t>(r));
      C top = -C(INFINITY), sum = 0;
      for (std::int64_t c = 0; c < length; ++c) top = larger(top, load(x[base + c * stride]));
      for (std::int64_t c = 0; c < length; ++c) sum += exp(load(x[base + c * stride]) - top);
      const C log_sum = log(sum);
      for (std::int64_t c = 0; c < length; ++c) {
        const C v = load(x[base + c * stride]);
        y[base + c * stride] = store<Y>(logarithm ? v - top - log_sum : exp(v - top) / sum);
      }
    }
  }
};

}  // namespace tandem::cuda
