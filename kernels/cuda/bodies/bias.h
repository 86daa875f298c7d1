// Bias and activation by channel, on matrices [pixels, channels], which is what tensors laid out channels last are.
#pragma once
#include "kernels/cuda/bodies/types.h"

namespace tandem::cuda {

// y = relu?(y + bias[c]), in place.
template <class T>
struct BiasBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  T* y;
  const T* bias;  // may be null
  std::int64_t elements;
  std::int32_t channels;
  bool relu;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      Compute<T> v = load(y[i]);
      if (bias) v += load(bias[i % channels]);
      y[i] = store<T>(relu && v < Compute<T>(0) ? Compute<T>(0) : v);
    }
  }
};

// dx = 0 where y ≤ 0, in place.
template <class T>
struct MaskBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  T* dx;
  const T* y;
  std::int64_t elements;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads)
      if (!(load(y[i]) > Compute<T>(0))) dx[i] = store<T>(Compute<T>(0));
  }
};

}  // namespace tandem::cuda
