// Rows of numbers from one distance between rows to another.
#pragma once
#include "kernels/cuda/bodies/index.h"
#include "kernels/cuda/bodies/pack.h"

namespace tandem::cuda {

// y[r·pitch + c] = x[r·from + c], and zeros from c = width on: 16 bytes of y a thread, which begins at a multiple of them.
template <class Unit>
struct PitchBody {
  static constexpr int threads = 256, pack_width = full_pack<Unit>;
  static constexpr bool cooperative = false;
  const Unit* x;
  Unit* y;
  std::uint32_t elements;  // of y
  Divider pitch;
  std::uint32_t width;
  std::int64_t from;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t packs = (std::int64_t{elements} + pack_width - 1) / pack_width;
    for (std::int64_t i = t.block() * threads + t.thread(); i < packs; i += t.blocks() * threads) {
      const std::uint32_t first = static_cast<std::uint32_t>(i) * pack_width, row = pitch.divide(first);
      const int here = elements - first < pack_width ? static_cast<int>(elements - first) : pack_width;
      std::uint32_t column = first - row * pitch.divisor;
      std::int64_t at = row * from + column;
      Pack<Unit, pack_width> pack;
      TANDEM_UNROLL(unroll)
      for (int k = 0; k < pack_width; ++k) {
        pack.v[k] = k < here && column < width ? x[at] : Unit{0};
        ++at;
        if (++column == pitch.divisor) {
          column = 0;
          at += from - pitch.divisor;
        }
      }
      if (here == pack_width)
        write_pack(y, i, pack);
      else
        for (int k = 0; k < here; ++k) y[first + static_cast<std::uint32_t>(k)] = pack.v[k];
    }
  }
};

}  // namespace tandem::cuda
