// ArgMax and ArgMin.
#pragma once
#include "kernels/cuda/bodies/index.h"
#include "kernels/cuda/bodies/types.h"

namespace tandem::cuda {

// y = place of the largest (or smallest) element along an axis.
template <class T>
struct ArgBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const T* x;
  std::int64_t* y;
  std::int64_t length, stride;
  std::uint32_t count;
  Nest<1> lines;
  bool largest, last;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t r = t.block() * threads + t.thread(); r < count; r += t.blocks() * threads) {
      const T* const from = x + lines.offset(static_cast<std::uint32_t>(r));
      std::int64_t place = 0;
      for (std::int64_t c = 1; c < length; ++c) {
        const auto v = load(from[c * stride]), best = load(from[place * stride]);
        if ((largest ? v > best : v < best) || (last && v == best)) place = c;
      }
      y[r] = place;
    }
  }
};

}  // namespace tandem::cuda
