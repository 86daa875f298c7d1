// Copies between strided operands, by the size of an element: 1, 2, 4, 8 or 16 bytes.
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

}  // namespace tandem::cuda
