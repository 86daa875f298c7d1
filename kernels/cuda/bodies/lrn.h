// Local response normalization over channels, channels last.
#pragma once
#include "kernels/cuda/bodies/types.h"

#if !defined(__CUDACC__)
#include <math.h>
#endif

namespace tandem::cuda {

// s = bias + alpha/size · Σ x² over the channels around c.
struct LrnGeometry {
  std::int64_t elements;
  std::int32_t channels, before, behind;
  double alpha_share, beta, bias;
  template <class T>
  TANDEM_DEVICE Compute<T> sum(const T* pixel, std::int32_t c) const {
    Compute<T> squares = 0;
    for (std::int32_t k = c - before < 0 ? 0 : c - before; k <= c + behind && k < channels; ++k) squares += load(pixel[k]) * load(pixel[k]);
    return static_cast<Compute<T>>(bias) + static_cast<Compute<T>>(alpha_share) * squares;
  }
};

// y = x · s^−β
template <class T>
struct LrnBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const T* x;
  T* y;
  LrnGeometry g;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < g.elements; i += t.blocks() * threads) {
      const std::int32_t c = static_cast<std::int32_t>(i % g.channels);
      y[i] = store<T>(load(x[i]) * pow(g.sum(x + (i - c), c), -static_cast<Compute<T>>(g.beta)));
    }
  }
};

// dx = dy · s^−β − 2 · alpha/size · β · x · Σ dy · y / s over the channels around which it lies.
template <class T>
struct LrnBackwardBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const T *x, *y, *dy;
  T* dx;
  LrnGeometry g;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    using C = Compute<T>;
    for (std::int64_t i = t.block() * threads + t.thread(); i < g.elements; i += t.blocks() * threads) {
      const std::int32_t c = static_cast<std::int32_t>(i % g.channels);
      const std::int64_t pixel = i - c;
      C others = 0;
      for (std::int32_t k = c - g.behind < 0 ? 0 : c - g.behind; k <= c + g.before && k < g.channels; ++k)
        others += load(dy[pixel + k]) * load(y[pixel + k]) / g.sum(x + pixel, k);
      dx[i] = store<T>(load(dy[i]) * pow(g.sum(x + pixel, c), -static_cast<C>(g.beta)) -
                       C(2) * static_cast<C>(g.alpha_share) * static_cast<C>(g.beta) * load(x[i]) * others);
    }
  }
};

}  // namespace tandem::cuda
