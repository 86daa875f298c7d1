// Sum, or the largest, of what ranks that share a GPU give: every element once, in their order, written to those that get it.
#pragma once
#include "kernels/cuda/bodies/types.h"

namespace tandem::cuda {

inline constexpr int max_local_ranks = 32;

template <class T>
struct FoldBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const T* from[max_local_ranks];
  T* to[max_local_ranks];  // some of `from`, or none
  int given, written;
  bool largest;
  std::int64_t elements;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      Compute<T> sum = load(from[0][i]);
      for (int r = 1; r < given; ++r) {
        const Compute<T> x = load(from[r][i]);
        sum = !largest ? sum + x : x > sum ? x : sum;
      }
      for (int r = 0; r < written; ++r) to[r][i] = store<T>(sum);
    }
  }
};

}  // namespace tandem::cuda
