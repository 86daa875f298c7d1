// Pooling, channels last.
#pragma once
#include "kernels/cuda/bodies/window.h"

#if !defined(__CUDACC__)
#include <math.h>
#endif

namespace tandem::cuda {

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

}  // namespace tandem::cuda
