// Sliding windows over up to three spatial axes, channels last: pooling, convolutions where no library takes them, and
// local response normalization over channels.
#pragma once
#include "kernels/cuda/bodies/types.h"

#if !defined(__CUDACC__)
#include <math.h>
#endif

namespace tandem::cuda {

// Three spatial axes; unused leading ones have size 1.
struct WindowGeometry {
  std::int32_t input[3], output[3], kernel[3], stride[3], begin[3], end[3], dilation[3];
};
struct Place3 {
  std::int32_t at[3];
  TANDEM_DEVICE static Place3 of(std::int64_t linear, const std::int32_t (&size)[3]) {
    Place3 p;
    p.at[2] = static_cast<std::int32_t>(linear % size[2]);
    linear /= size[2];
    p.at[1] = static_cast<std::int32_t>(linear % size[1]);
    p.at[0] = static_cast<std::int32_t>(linear / size[1]);
    return p;
  }
};

// The input place of a tap of the window at an output place: its linear number, -1 in the padding, -2 beyond it.
TANDEM_DEVICE std::int64_t input_place(const WindowGeometry& g, const Place3& output, const Place3& tap) {
  std::int64_t linear = 0;
  int outside = 0;
  for (int d = 0; d < 3; ++d) {
    const std::int32_t i = output.at[d] * g.stride[d] - g.begin[d] + tap.at[d] * g.dilation[d];
    if (i < 0 || i >= g.input[d]) outside = i >= g.input[d] + g.end[d] ? -2 : outside == -2 ? -2 : -1;
    linear = linear * g.input[d] + i;
  }
  return outside != 0 ? outside : linear;
}
// The output place whose window meets an input place with a tap, or -1.
TANDEM_DEVICE std::int64_t output_place(const WindowGeometry& g, const Place3& input, const Place3& tap) {
  std::int64_t linear = 0;
  for (int d = 0; d < 3; ++d) {
    const std::int32_t o = input.at[d] + g.begin[d] - tap.at[d] * g.dilation[d];
    if (o < 0 || o % g.stride[d] != 0 || o / g.stride[d] >= g.output[d]) return -1;
    linear = linear * g.output[d] + o / g.stride[d];
  }
  return linear;
}
TANDEM_DEVICE std::int64_t volume(const std::int32_t (&size)[3]) { return static_cast<std::int64_t>(size[0]) * size[1] * size[2]; }

// y = the largest of each window, places = where it lies in its plane, indices = ONNX's Indices; both may be null.
template <class T>
struct MaxPoolBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const T* x;
  T* y;
  std::int32_t* places;
  std::int64_t* indices;
  std::int64_t elements, channels;  // of y
  WindowGeometry g;
  bool column_major;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t outputs = volume(g.output), inputs = volume(g.input), taps = volume(g.kernel);
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::int64_t c = i % channels, o = i / channels % outputs, n = i / channels / outputs;
      const Place3 at = Place3::of(o, g.output);
      std::int64_t place = -1;
      Compute<T> best = 0;
      for (std::int64_t k = 0; k < taps; ++k) {
        const std::int64_t p = input_place(g, at, Place3::of(k, g.kernel));
        if (p < 0) continue;
        const Compute<T> v = load(x[(n * inputs + p) * channels + c]);
        if (place < 0 || v > best) best = v, place = p;
      }
      y[i] = place < 0 ? store<T>(-Compute<T>(INFINITY)) : x[(n * inputs + place) * channels + c];
      if (places) places[i] = static_cast<std::int32_t>(place);
      if (indices) {
        const Place3 p = Place3::of(place, g.input);
        indices[i] = (n * channels + c) * inputs + (column_major ? (static_cast<std::int64_t>(p.at[2]) * g.input[1] + p.at[1]) * g.input[0] + p.at[0] : place);
      }
    }
  }
};

// dx = Σ dy of the windows whose largest it was.
template <class T>
struct MaxPoolBackwardBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const T* dy;
  const std::int32_t* places;
  T* dx;
  std::int64_t elements, channels;  // of dx
  WindowGeometry g;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t outputs = volume(g.output), inputs = volume(g.input), taps = volume(g.kernel);
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::int64_t c = i % channels, own = i / channels % inputs, n = i / channels / inputs;
      const Place3 at = Place3::of(own, g.input);
      Compute<T> sum = 0;
      for (std::int64_t k = taps; k-- > 0;) {  // the windows in their order
        const std::int64_t o = output_place(g, at, Place3::of(k, g.kernel));
        if (o >= 0 && places[(n * outputs + o) * channels + c] == own) sum += load(dy[(n * outputs + o) * channels + c]);
      }
      dx[i] = store<T>(sum);
    }
  }
};

// Elements that the average at an output place divides by.
TANDEM_DEVICE std::int64_t averaged(const WindowGeometry& g, const Place3& at, bool include_padding) {
  std::int64_t count = 0;
  for (std::int64_t k = 0; k < volume(g.kernel); ++k) {
    const std::int64_t p = input_place(g, at, Place3::of(k, g.kernel));
    count += p >= 0 || (include_padding && p == -1);
  }
  return count;
}

template <class T>
struct AveragePoolBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const T* x;
  T* y;
  std::int64_t elements, channels;
  WindowGeometry g;
  bool include_padding;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t outputs = volume(g.output), inputs = volume(g.input), taps = volume(g.kernel);
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::int64_t c = i % channels, o = i / channels % outputs, n = i / channels / outputs;
      const Place3 at = Place3::of(o, g.output);
      Compute<T> sum = 0;
      for (std::int64_t k = 0; k < taps; ++k) {
        const std::int64_t p = input_place(g, at, Place3::of(k, g.kernel));
        if (p >= 0) sum += load(x[(n * inputs + p) * channels + c]);
      }
      const std::int64_t count = averaged(g, at, include_padding);
      y[i] = store<T>(count > 0 ? sum / static_cast<Compute<T>>(count) : Compute<T>(0));
    }
  }
};

template <class T>
struct AveragePoolBackwardBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const T* dy;
  T* dx;
  std::int64_t elements, channels;
  WindowGeometry g;
  bool include_padding;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t outputs = volume(g.output), inputs = volume(g.input), taps = volume(g.kernel);
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::int64_t c = i % channels, own = i / channels % inputs, n = i / channels / inputs;
      const Place3 at = Place3::of(own, g.input);
      Compute<T> sum = 0;
      for (std::int64_t k = taps; k-- > 0;) {
        const std::int64_t o = output_place(g, at, Place3::of(k, g.kernel));
        if (o < 0) continue;
        const std::int64_t count = averaged(g, Place3::of(o, g.output), include_padding);
        sum += load(dy[(n * outputs + o) * channels + c]) / static_cast<Compute<T>>(count);
      }
      dx[i] = store<T>(sum);
    }
  }
};

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
    const std::int64_t outputs = volume(c.g.output), inputs = volume(c.g.input), taps = volume(c.g.kernel), in = c.in / c.groups, out = c.out / c.groups;
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
    const std::int64_t outputs = volume(c.g.output), inputs = volume(c.g.input), taps = volume(c.g.kernel), in = c.in / c.groups, out = c.out / c.groups;
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
    const std::int64_t outputs = volume(c.g.output), inputs = volume(c.g.input), taps = volume(c.g.kernel), in = c.in / c.groups, out = c.out / c.groups;
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
      dx[i] = store<T>(load(dy[i]) * pow(g.sum(x + pixel, c), -static_cast<C>(g.beta)) - C(2) * static_cast<C>(g.alpha_share) * static_cast<C>(g.beta) * load(x[i]) * others);
    }
  }
};

}  // namespace tandem::cuda
