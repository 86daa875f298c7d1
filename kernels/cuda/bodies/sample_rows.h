// SampleRows and its two gradients, row-major. An index outside of x counts nothing.
#pragma once
#include "kernels/cuda/bodies/types.h"

namespace tandem::cuda {

struct SampleSizes {
  std::int64_t rows, places, taps, channels;  // of one of the batch
};

// y[b,p,c] = Σ_k weight[b,p,k] · x[b, index[b,p,k], c]
template <class T>
struct SampleRowsBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const T* x;
  const std::int64_t* index;
  const Compute<T>* weight;
  T* y;
  SampleSizes s;
  std::int64_t elements;  // of y

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::int64_t c = i % s.channels, p = i / s.channels, row = p / s.places * s.rows;
      Compute<T> sum = 0;
      for (std::int64_t k = p * s.taps; k < (p + 1) * s.taps; ++k)
        if (index[k] >= 0 && index[k] < s.rows) sum += weight[k] * load(x[(row + index[k]) * s.channels + c]);
      y[i] = store<T>(sum);
    }
  }
};

// dx[b, index[b,p,k], c] += weight[b,p,k] · dy[b,p,c]: a thread owns one channel of one of the batch, so that sums are made in the
// order of places and taps. `sums` are dx, or of its size where T has 16 bits.
template <class T>
struct SampleRowsBackwardDataBody {
  static constexpr int threads = 32;
  static constexpr bool cooperative = false;
  const T* dy;
  const std::int64_t* index;
  const Compute<T>* weight;
  Compute<T>* sums;
  T* dx;
  SampleSizes s;
  std::int64_t lines;  // batch · channels

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < lines; i += t.blocks() * threads) {
      const std::int64_t c = i % s.channels, b = i / s.channels, line = b * s.rows * s.channels + c;
      for (std::int64_t r = 0; r < s.rows; ++r) sums[line + r * s.channels] = 0;
      for (std::int64_t p = b * s.places; p < (b + 1) * s.places; ++p) {
        const Compute<T> own = load(dy[p * s.channels + c]);
        for (std::int64_t k = p * s.taps; k < (p + 1) * s.taps; ++k)
          if (index[k] >= 0 && index[k] < s.rows && weight[k] != 0) sums[line + index[k] * s.channels] += weight[k] * own;
      }
      if constexpr (!std::is_same_v<T, Compute<T>>)
        for (std::int64_t r = 0; r < s.rows; ++r) dx[line + r * s.channels] = store<T>(sums[line + r * s.channels]);
    }
  }
};

// dweight[b,p,k] = Σ_c dy[b,p,c] · x[b, index[b,p,k], c]
template <class T>
struct SampleRowsBackwardWeightsBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const T *x, *dy;
  const std::int64_t* index;
  Compute<T>* dweight;
  SampleSizes s;
  std::int64_t elements;  // of dweight

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::int64_t p = i / s.taps, from = (p / s.places * s.rows + index[i]) * s.channels;
      Compute<T> sum = 0;
      if (index[i] >= 0 && index[i] < s.rows)
        for (std::int64_t c = 0; c < s.channels; ++c) sum += load(x[from + c]) * load(dy[p * s.channels + c]);
      dweight[i] = sum;
    }
  }
};

}  // namespace tandem::cuda
