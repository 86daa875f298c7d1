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

// f(element): a thread's part of them. Places and channels are below 2^31.
template <int threads, class Thread, class F>
TANDEM_DEVICE void each_element(const Thread& t, std::int64_t elements, std::int64_t places, std::int64_t channels, F&& f) {
  const bool narrow = elements < std::int64_t{1} << 31;
  for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
    const std::int64_t lines = narrow ? static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(channels) : i / channels;
    const std::int64_t sample = narrow ? static_cast<std::uint32_t>(lines) / static_cast<std::uint32_t>(places) : lines / places;
    f(PoolingElement{i, sample, lines - sample * places, i - lines * channels, channels});
  }
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
          const auto value = load(pack.v[k]);
          if (place.v[k] >= 0 && !(value > load(best.v[k])) && value == value) continue;  // NaN stays
          best.v[k] = pack.v[k];
          place.v[k] = static_cast<std::int32_t>(p);
        }
      });
      write_pack(y, e.number, best);
      if (places) write_pack(places, e.number, place);
      if (!indices) return;
      for (int k = 0; k < width; ++k) {
        const Place3 p = Place3::of(place.v[k], g.input);
        const std::int64_t in_plane =
            column_major ? (static_cast<std::int64_t>(p.at[2]) * g.input[1] + p.at[1]) * g.input[0] + p.at[0] : place.v[k];
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
      each_output(g, e.place, [](int, std::int32_t) { return 1; }, [&](std::int64_t o, std::int32_t) {
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

// Elements that the average at an output place divides by, along one axis.
TANDEM_DEVICE std::int32_t averaged(const WindowGeometry& g, int d, std::int32_t output, bool include_padding) {
  const std::int32_t start = output * g.stride[d] - g.begin[d];
  return include_padding ? taps_below(g, d, start, g.input[d] + g.end[d])
                         : taps_below(g, d, start, g.input[d]) - taps_below(g, d, start, 0);
}

template <class T, int width>
struct AveragePoolBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const T* x;
  T* y;
  std::int64_t packs, channels;  // of y; channels: packs of a place
  WindowGeometry g;
  bool include_padding;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t inputs = volume(g.input);
    each_element<threads>(t, packs, volume(g.output), channels, [&](const PoolingElement& e) {
      Compute<T> sum[width] = {};
      each_input(g, e.place, [&](std::int64_t p) {
        const Pack<T, width> pack = read_pack<width>(x, e.at(p, inputs));
        for (int k = 0; k < width; ++k) sum[k] += load(pack.v[k]);
      });
      const Place3 at = Place3::of(e.place, g.output);
      std::int32_t count = 1;
      for (int d = 0; d < 3; ++d) count *= averaged(g, d, at.at[d], include_padding);
      Pack<T, width> mean;
      for (int k = 0; k < width; ++k) mean.v[k] = store<T>(count > 0 ? sum[k] / static_cast<Compute<T>>(count) : Compute<T>(0));
      write_pack(y, e.number, mean);
    });
  }
};

template <class T, int width>
struct AveragePoolBackwardBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const T* dy;
  T* dx;
  std::int64_t packs, channels;  // of dx
  WindowGeometry g;
  bool include_padding;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t outputs = volume(g.output);
    each_element<threads>(t, packs, volume(g.input), channels, [&](const PoolingElement& e) {
      Compute<T> sum[width] = {};
      const auto of_window = [&](int d, std::int32_t output) { return averaged(g, d, output, include_padding); };
      each_output(g, e.place, of_window, [&](std::int64_t o, std::int32_t count) {
        const Pack<T, width> pack = read_pack<width>(dy, e.at(o, outputs));
        const Compute<T> share = Compute<T>(1) / static_cast<Compute<T>>(count);
        for (int k = 0; k < width; ++k) sum[k] += load(pack.v[k]) * share;
      });
      Pack<T, width> result;
      for (int k = 0; k < width; ++k) result.v[k] = store<T>(sum[k]);
      write_pack(dx, e.number, result);
    });
  }
};

}  // namespace tandem::cuda
