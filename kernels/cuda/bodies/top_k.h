// TopK: a thread a line, which finds each element in turn.
#pragma once
#include "kernels/cuda/bodies/types.h"

namespace tandem::cuda {

// Of equal elements the first comes first; NaN counts as largest.
template <class T>
struct TopKBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const T* x;
  T* values;
  std::int64_t* places;
  std::int64_t length, inner, k, count;  // count of lines
  bool largest;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t line = t.block() * threads + t.thread(); line < count; line += t.blocks() * threads) {
      const T* const from = x + line / inner * length * inner + line % inner;
      const std::int64_t to = line / inner * k * inner + line % inner;
      std::int64_t last = -1;
      for (std::int64_t i = 0; i < k; ++i) {
        std::int64_t best = -1;
        for (std::int64_t c = 0; c < length; ++c)
          if ((last < 0 || precedes(from, last, c)) && (best < 0 || precedes(from, c, best))) best = c;
        if (values) values[to + i * inner] = from[best * inner];
        if (places) places[to + i * inner] = best;
        last = best;
      }
    }
  }

 private:
  TANDEM_DEVICE bool precedes(const T* from, std::int64_t i, std::int64_t j) const {
    const auto a = load(from[i * inner]), b = load(from[j * inner]);
    const bool more = a > b || (a != a && b == b), less = b > a || (b != b && a == a);
    return more || less ? more == largest : i < j;
  }
};

}  // namespace tandem::cuda
