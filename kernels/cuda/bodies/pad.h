// Pad and its gradient.
#pragma once
#include "kernels/cuda/bodies/index.h"
#include "kernels/cuda/bodies/types.h"

namespace tandem::cuda {

enum class PadMode : std::uint8_t { constant, reflect, edge, wrap };

// One padded axis: where an output coordinate comes from, -1 for the constant. Negative pads crop.
struct PadAxis {
  Divider size;                  // of the output
  std::int32_t input, begin;
  std::int32_t x_stride, y_stride;
  TANDEM_DEVICE std::int32_t source(std::int32_t coordinate, PadMode mode) const {
    std::int32_t c = coordinate - begin;
    if (c >= 0 && c < input) return c;
    switch (mode) {
      case PadMode::constant: return -1;
      case PadMode::edge: return c < 0 ? 0 : input - 1;
      case PadMode::wrap: return (c % input + input) % input;
      case PadMode::reflect: {
        const std::int32_t period = 2 * (input - 1);
        if (period == 0) return 0;
        c = (c % period + period) % period;
        return c < input ? c : period - c;
      }
    }
    return -1;
  }
};

template <class Unit>
struct PadBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const Unit* x;
  Unit* y;
  Unit value;
  PadMode mode;
  std::int32_t rank;
  std::uint32_t elements;  // of y
  PadAxis axes[max_dims];  // in y's order, innermost last

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      std::uint32_t rest = static_cast<std::uint32_t>(i);
      std::int64_t from = 0, to = 0;
      bool inside = true;
      for (int d = rank - 1; d >= 0; --d) {
        const std::uint32_t outer = axes[d].size.divide(rest);
        const std::int32_t c = static_cast<std::int32_t>(rest - outer * axes[d].size.divisor);
        rest = outer;
        const std::int32_t s = axes[d].source(c, mode);
        inside &= s >= 0;
        from += static_cast<std::int64_t>(s) * axes[d].x_stride;
        to += static_cast<std::int64_t>(c) * axes[d].y_stride;
      }
      y[to] = inside ? x[from] : value;
    }
  }
};

// dx = Σ dy over the places that the padding took from it. `axes[d].size` is dx's here.
template <class T>
struct PadBackwardBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const T* dy;
  T* dx;
  PadMode mode;
  std::int32_t rank;
  std::uint32_t elements;  // of dx
  PadAxis axes[max_dims];
  std::int32_t output[max_dims];  // dy's sizes

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      std::uint32_t rest = static_cast<std::uint32_t>(i);
      std::int32_t coordinate[max_dims], candidate[max_dims];
      std::int64_t to = 0;
      for (int d = rank - 1; d >= 0; --d) {
        const std::uint32_t outer = axes[d].size.divide(rest);
        coordinate[d] = static_cast<std::int32_t>(rest - outer * axes[d].size.divisor);
        to += static_cast<std::int64_t>(coordinate[d]) * axes[d].x_stride;
        rest = outer;
        candidate[d] = 0;
      }
      Compute<T> sum = 0;
      for (bool more = true; more;) {
        std::int64_t from = 0;
        bool hit = true;
        for (int d = 0; d < rank; ++d) {
          const std::int32_t c = place(d, candidate[d], coordinate[d]);
          hit &= c >= 0 && c < output[d] && axes[d].source(c, mode) == coordinate[d];
          from += static_cast<std::int64_t>(c) * axes[d].y_stride;
        }
        if (hit) sum += load(dy[from]);
        more = false;
        for (int d = rank - 1; d >= 0 && !more; --d) {
          if (++candidate[d] < candidates(d))
            more = true;
          else
            candidate[d] = 0;
        }
      }
      dx[to] = store<T>(sum);
    }
  }

 private:
  // Candidates along an axis: its own place, then each padded one.
  TANDEM_DEVICE std::int32_t candidates(int d) const {
    if (mode == PadMode::constant) return 1;
    const std::int32_t before = axes[d].begin > 0 ? axes[d].begin : 0;
    const std::int32_t end = output[d] - axes[d].begin - axes[d].input;
    return 1 + before + (end > 0 ? end : 0);
  }
  TANDEM_DEVICE std::int32_t place(int d, std::int32_t candidate, std::int32_t coordinate) const {
    const std::int32_t before = axes[d].begin > 0 ? axes[d].begin : 0;
    if (candidate == 0) return coordinate + axes[d].begin;
    if (candidate <= before) return candidate - 1;
    return axes[d].begin + axes[d].input + candidate - before - 1;
  }
};

}  // namespace tandem::cuda
