// Pooling, channels last.
#pragma once
#include "kernels/cuda/bodies/pack.h"
#include "kernels/cuda/bodies/window.h"

#if !defined(__CUDACC__)
#include <math.h>
#endif

namespace tandem::cuda {

// An element of a tensor [N, places..., C].
struct PoolingElement {
  std::int64_t number, sample, place, channel, channels;
  // The element of the same sample and channel at a place of a tensor that has so many.
  TANDEM_DEVICE std::int64_t at(std::int64_t other, std::int64_t places) const { return (sample * places + other) * channels + channel; }
};

// f(element): a thread's part of them.
template <int threads, class Thread, class F>
TANDEM_DEVICE void each_element(const Thread& t, std::int64_t elements, std::int64_t places, std::int64_t channels, F&& f) {
  for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads)
    f(PoolingElement{i, i / channels / places, i / channels % places, i % channels, channels});
}

// y = the largest of each window, places = where it lies in its plane, indices = ONNX's Indices; both may be null. In packs of
// channels.
template <class T, int width>
struct MaxPoolBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const T* x;
  T* y;
  std::int32_t* places;
  std::int64_t* indices;
  std::int64_t packs, channels;  // of y; channels: packs of a place
  WindowGeometry g;
  bool column_major;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t inputs = volume(g.input);
    each_element<threads>(t, packs, volume(g.output), channels, [&](const PoolingElement& e) {
      Pack<std::int32_t, width> place;
      Pack<T, width> best;
      for (int k = 0; k < width; ++k) {
        place.v[k] = -1;
        best.v[k] = store<T>(-Compute<T>(INFINITY));
      }
      each_input(g, e.place, [&](std::int64_t p) {
        const Pack<T, width> pack = read_pack<width>(x, e.at(p, inputs));
        for (int k = 0; k < width; ++k) {
          if (place.v[k] >= 0 && !(load(pack.v[k]) > load(best.v[k]))) continue;
          best.v[k] = pack.v[k];
          place.v[k] = static_cast<std::int32_t>(p);
        }
      });
      write_pack(y, e.number, best);
      if (places) write_pack(places, e.number, place);
      if (!indices) return;
      for (int k = 0; k < width; ++k) {
        const Place3 p = Place3::of(place.v[k], g.input);
        const std::int64_t in_plane = column_major ? (static_cast<std::int64_t>(p.at[2]) * g.input[1] + p.at[1]) * g.input[0] + p.at[0] : place.v[k];
        indices[e.number * width + k] = ((e.sample * channels + e.channel) * width + k) * inputs + in_plane;
      }
    });
  }
};

// dx = Σ dy of the windows whose largest it was.
template <class T, int width>
struct MaxPoolBackwardBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const T* dy;
  const std::int32_t* places;
  T* dx;
  std::int64_t packs, channels;  // of dx
  WindowGeometry g;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t outputs = volume(g.output);
    each_element<threads>(t, packs, volume(g.input), channels, [&](const PoolingElement& e) {
      Compute<T> sum[width] = {};
      each_output(g, e.place, [&](std::int64_t o) {
        const Pack<std::int32_t, width> place = read_pack<width>(places, e.at(o, outputs));
        const Pack<T, width> pack = read_pack<width>(dy, e.at(o, outputs));
        for (int k = 0; k < width; ++k)
          if (place.v[k] == e.place) sum[k] += load(pack.v[k]);
      });
      Pack<T, width> result;
      for (int k = 0; k < width; ++k) result.v[k] = store<T>(sum[k]);
      write_pack(dx, e.number, result);
    });
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
    const std::int64_t inputs = volume(g.input);
    each_element<threads>(t, elements, volume(g.output), channels, [&](const PoolingElement& e) {
      Compute<T> sum = 0;
      each_input(g, e.place, [&](std::int64_t p) { sum += load(x[e.at(p, inputs)]); });
      const std::int64_t count = averaged(g, Place3::of(e.place, g.output), include_padding);
      y[e.number] = store<T>(count > 0 ? sum / static_cast<Compute<T>>(count) : Compute<T>(0));
    });
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
    const std::int64_t outputs = volume(g.output);
    each_element<threads>(t, elements, volume(g.input), channels, [&](const PoolingElement& e) {
      Compute<T> sum = 0;
      each_output(g, e.place, [&](std::int64_t o) {
        sum += load(dy[e.at(o, outputs)]) / static_cast<Compute<T>>(averaged(g, Place3::of(o, g.output), include_padding));
      });
      dx[e.number] = store<T>(sum);
    });
  }
};

}  // namespace tandem::cuda
