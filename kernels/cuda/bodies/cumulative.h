// Running sums and products: a thread a line.
#pragma once
#include "kernels/cuda/bodies/types.h"

namespace tandem::cuda {

struct CumulativeLines {
  std::int64_t length, inner, count;
  bool exclusive, reverse;
  TANDEM_DEVICE std::int64_t first(std::int64_t line) const {
    return line / inner * length * inner + line % inner + (reverse ? (length - 1) * inner : 0);
  }
  TANDEM_DEVICE std::int64_t step() const { return reverse ? -inner : inner; }
};

template <class T>
struct CumulativeBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const T* x;
  T* y;
  CumulativeLines lines;
  bool sum;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t line = t.block() * threads + t.thread(); line < lines.count; line += t.blocks() * threads) {
      auto running = static_cast<Compute<T>>(sum ? 0 : 1);
      std::int64_t i = lines.first(line);
      for (std::int64_t k = 0; k < lines.length; ++k, i += lines.step()) {
        const Compute<T> value = load(x[i]), next = static_cast<Compute<T>>(sum ? running + value : running * value);
        y[i] = store<T>(lines.exclusive ? running : next);
        running = next;
      }
    }
  }
};

// dx_k = Π x_j (j < k) · s_k with s_k = dy_k + x_(k+1) · s_(k+1); exclusive: dy_(k+1) in place of dy_k.
template <class T>
struct CumulativeProductBackwardBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const T *dy, *x;
  T* dx;
  CumulativeLines lines;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t line = t.block() * threads + t.thread(); line < lines.count; line += t.blocks() * threads) {
      T before = 1, behind = 0;
      std::int64_t i = lines.first(line);
      for (std::int64_t k = 0; k < lines.length; ++k, i += lines.step()) {
        dx[i] = before;
        before *= x[i];
      }
      for (std::int64_t k = 0; k < lines.length; ++k) {
        i -= lines.step();
        if (!lines.exclusive) behind += dy[i];
        dx[i] *= behind;
        behind *= x[i];
        if (lines.exclusive) behind += dy[i];
      }
    }
  }
};

}  // namespace tandem::cuda
