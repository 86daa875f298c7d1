// Sum, or the largest, over the buffers of ranks that share a GPU: every element once, in rank order, written to all of them.
#pragma once
#include "kernels/cuda/bodies/types.h"

namespace tandem::cuda {

inline constexpr int max_local_ranks = 32;

template <class T>
struct AllReduceBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  T* buffers[max_local_ranks];
  int ranks;
  bool largest;
  std::int64_t begin, end;  // the share of this rank

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = begin + t.block() * threads + t.thread(); i < end; i += t.blocks() * threads) {
      Compute<T> sum = load(buffers[0][i]);
      for (int r = 1; r < ranks; ++r) {
        const Compute<T> x = load(buffers[r][i]);
        sum = !largest ? sum + x : x > sum ? x : sum;
      }
      for (int r = 0; r < ranks; ++r) buffers[r][i] = store<T>(sum);
    }
  }
};

}  // namespace tandem::cuda
