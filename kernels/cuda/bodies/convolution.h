// Convolutions and their gradients, channels last, where no library takes them.
#pragma once
#include "kernels/cuda/bodies/window.h"

namespace tandem::cuda {

// Convolutions of x[n, place, c] with w[m, tap, c of the group] to y[n, place, m]. Plain loops: for types and shapes that
// no library takes.
struct ConvolutionGeometry {
  WindowGeometry g;
  std::int64_t batch, in, out, groups;  // channels of x and y
};

template <class T>
struct ConvolutionBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const T *x, *w, *bias;  // bias may be null
  T* y;
  ConvolutionGeometry c;
  bool relu;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t outputs = volume(c.g.output), inputs = volume(c.g.input), taps = volume(c.g.kernel), in = c.in / c.groups,
                       out = c.out / c.groups;
    for (std::int64_t i = t.block() * threads + t.thread(); i < c.batch * outputs * c.out; i += t.blocks() * threads) {
      const std::int64_t m = i % c.out, o = i / c.out % outputs, n = i / c.out / outputs;
      const Place3 at = Place3::of(o, c.g.output);
      Compute<T> sum = 0;
      for (std::int64_t k = 0; k < taps; ++k) {
        const std::int64_t p = input_place(c.g, at, Place3::of(k, c.g.kernel));
        if (p < 0) continue;
        const T* const from = x + (n * inputs + p) * c.in + m / out * in;
        const T* const by = w + (m * taps + k) * in;
        for (std::int64_t j = 0; j < in; ++j) sum += load(from[j]) * load(by[j]);
      }
      if (bias) sum += load(bias[m]);
      y[i] = store<T>(relu && sum < Compute<T>(0) ? Compute<T>(0) : sum);
    }
  }
};

// dx from dy and w; with bias and relu it is the transposed convolution, whose x is this dy.
template <class T>
struct ConvolutionBackwardDataBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const T *dy, *w, *bias;
  T* dx;
  ConvolutionGeometry c;
  bool relu;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t outputs = volume(c.g.output), inputs = volume(c.g.input), taps = volume(c.g.kernel), in = c.in / c.groups,
                       out = c.out / c.groups;
    for (std::int64_t i = t.block() * threads + t.thread(); i < c.batch * inputs * c.in; i += t.blocks() * threads) {
      const std::int64_t channel = i % c.in, own = i / c.in % inputs, n = i / c.in / inputs, group = channel / in;
      const Place3 at = Place3::of(own, c.g.input);
      Compute<T> sum = 0;
      for (std::int64_t k = 0; k < taps; ++k) {
        const std::int64_t o = output_place(c.g, at, Place3::of(k, c.g.kernel));
        if (o < 0) continue;
        for (std::int64_t m = group * out; m < (group + 1) * out; ++m)
          sum += load(dy[(n * outputs + o) * c.out + m]) * load(w[(m * taps + k) * in + channel % in]);
      }
      if (bias) sum += load(bias[channel]);
      dx[i] = store<T>(relu && sum < Compute<T>(0) ? Compute<T>(0) : sum);
    }
  }
};

template <class T>
struct ConvolutionBackwardWeightsBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const T *x, *dy;
  T* dw;
  ConvolutionGeometry c;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t outputs = volume(c.g.output), inputs = volume(c.g.input), taps = volume(c.g.kernel), in = c.in / c.groups,
                       out = c.out / c.groups;
    for (std::int64_t i = t.block() * threads + t.thread(); i < c.out * taps * in; i += t.blocks() * threads) {
      const std::int64_t j = i % in, k = i / in % taps, m = i / in / taps;
      const Place3 tap = Place3::of(k, c.g.kernel);
      Compute<T> sum = 0;
      for (std::int64_t n = 0; n < c.batch; ++n)
        for (std::int64_t o = 0; o < outputs; ++o) {
          const std::int64_t p = input_place(c.g, Place3::of(o, c.g.output), tap);
          if (p >= 0) sum += load(x[(n * inputs + p) * c.in + m / out * in + j]) * load(dy[(n * outputs + o) * c.out + m]);
        }
      dw[i] = store<T>(sum);
    }
  }
};

}  // namespace tandem::cuda
