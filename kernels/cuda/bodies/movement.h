// Moving elements between strided operands, by their size: 1, 2, 4, 8 or 16 bytes.
#pragma once
#include "kernels/cuda/bodies/index.h"
#include "kernels/cuda/bodies/types.h"

namespace tandem::cuda {

struct alignas(16) Bytes16 {
  std::uint64_t low, high;
};

// y = x along a nest of (y, x).
template <class Unit>
struct CopyBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const Unit* x;
  Unit* y;
  std::uint32_t elements;
  Nest<2> nest;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      std::int64_t at[2];
      nest.offsets(static_cast<std::uint32_t>(i), at);
      y[at[0]] = x[at[1]];
    }
  }
};

// y = x where x is contiguous along dimension a and y along dimension b: tiles of 32 × 32 through shared memory, so that
// both are read and written along their own order.
template <class Unit>
struct TransposeBody {
  static constexpr int tile = 32, lines = 8;
  static constexpr int threads = tile * lines;
  static constexpr bool cooperative = true;
  const Unit* x;
  Unit* y;
  std::int32_t size_a, size_b, tiles_a, tiles_b;
  std::int64_t x_stride_b, y_stride_a;
  Nest<2> outer;  // the other dimensions, of (y, x)

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    Unit* const buffer = t.template shared<Unit, tile*(tile + 1), 0>();
    const int fast = t.thread() % tile, slow = t.thread() / tile;
    std::int64_t rest = t.block();
    const std::int64_t b0 = rest % tiles_b * tile;
    rest /= tiles_b;
    const std::int64_t a0 = rest % tiles_a * tile;
    std::int64_t at[2];
    outer.offsets(static_cast<std::uint32_t>(rest / tiles_a), at);
    for (int line = slow; line < tile; line += lines)
      if (a0 + fast < size_a && b0 + line < size_b) buffer[line * (tile + 1) + fast] = x[at[1] + a0 + fast + (b0 + line) * x_stride_b];
    t.sync();
    for (int line = slow; line < tile; line += lines)
      if (b0 + fast < size_b && a0 + line < size_a) y[at[0] + b0 + fast + (a0 + line) * y_stride_a] = buffer[fast * (tile + 1) + line];
  }
};

template <class Unit>
struct FillBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  Unit* y;
  Unit value;
  std::int64_t elements;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) y[i] = value;
  }
};

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

TANDEM_DEVICE std::int64_t read_index(const void* indices, bool wide, std::int64_t i) {
  return wide ? static_cast<const std::int64_t*>(indices)[i] : static_cast<const std::int32_t*>(indices)[i];
}

// y[outer, k, inner] = x[outer, indices[k], inner], all row-major.
template <class Unit>
struct GatherBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const Unit* x;
  const void* indices;
  Unit* y;
  Unit invalid;
  bool wide;  // int64 indices, else int32
  std::int64_t axis, count, inner, elements;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::int64_t c = i % inner, k = i / inner % count, outer = i / inner / count;
      std::int64_t index = read_index(indices, wide, k);
      if (index < 0) index += axis;
      y[i] = index >= 0 && index < axis ? x[(outer * axis + index) * inner + c] : invalid;
    }
  }
};

// chain[k] = the next place after k with the same index, or -1; chain[count + k] = 1 where k is the first with its index.
struct GatherChainBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const void* indices;
  std::int32_t* chain;
  bool wide;
  std::int64_t axis, count;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t k = t.block() * threads + t.thread(); k < count; k += t.blocks() * threads) {
      const std::int64_t own = at(k);
      std::int64_t next = k + 1, before = k - 1;
      while (next < count && at(next) != own) ++next;
      while (before >= 0 && at(before) != own) --before;
      chain[k] = next < count ? static_cast<std::int32_t>(next) : -1;
      chain[count + k] = before < 0 && own >= 0 && own < axis;
    }
  }

 private:
  TANDEM_DEVICE std::int64_t at(std::int64_t k) const {
    const std::int64_t index = read_index(indices, wide, k);
    return index < 0 ? index + axis : index;
  }
};

// dx[outer, indices[k], inner] = Σ dy over the places of equal index, in their order; dx is zero elsewhere already.
template <class T>
struct GatherBackwardBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const T* dy;
  const void* indices;
  const std::int32_t* chain;
  T* dx;
  bool wide;
  std::int64_t axis, count, inner, elements;  // of dy

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::int64_t c = i % inner, first = i / inner % count, outer = i / inner / count;
      if (!chain[count + first]) continue;
      Compute<T> sum = 0;
      for (std::int64_t k = first; k >= 0; k = chain[k]) sum += load(dy[(outer * count + k) * inner + c]);
      std::int64_t index = read_index(indices, wide, first);
      if (index < 0) index += axis;
      dx[(outer * axis + index) * inner + c] = store<T>(sum);
    }
  }
};

}  // namespace tandem::cuda
