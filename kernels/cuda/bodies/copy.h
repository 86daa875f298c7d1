// Copies between strided operands, by the size of an element: 1, 2, 4, 8 or 16 bytes.
#pragma once
#include "kernels/cuda/bodies/index.h"
#include "kernels/cuda/bodies/pack.h"

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

// y = x where one of them, y if `gathers` and else x, is one run of elements: 16 bytes of it a thread, which walks along the other's rows,
// elements `step` apart.
template <class Unit, bool gathers>
struct RunCopyBody {
  static constexpr int threads = 256, width = full_pack<Unit>;
  static constexpr bool cooperative = false;
  const Unit* x;
  Unit* y;
  std::uint32_t elements;
  Divider row;
  std::int32_t step;
  Nest<1> rows;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::uint32_t packs = elements / width;
    for (std::int64_t i = t.block() * threads + t.thread(); i < packs; i += t.blocks() * threads) {
      const std::uint32_t first = static_cast<std::uint32_t>(i) * width;
      std::uint32_t number = row.divide(first), place = first - number * row.divisor;
      std::int64_t at = begin_of(number) + static_cast<std::int64_t>(place) * step;
      Pack<Unit, width> pack;
      if constexpr (!gathers) pack = read_pack<width>(x, i);
      TANDEM_UNROLL(unroll)
      for (int k = 0; k < width; ++k) {
        if constexpr (gathers)
          pack.v[k] = x[at];
        else
          y[at] = pack.v[k];
        at += step;
        if (++place < row.divisor || k + 1 == width) continue;
        place = 0;
        at = begin_of(++number);
      }
      if constexpr (gathers) write_pack(y, i, pack);
    }
    // What is left fills no pack: an element a thread.
    const std::uint32_t last = packs * width + static_cast<std::uint32_t>(t.thread());
    if (t.block() != 0 || last >= elements) return;
    const std::uint32_t number = row.divide(last);
    const std::int64_t at = begin_of(number) + static_cast<std::int64_t>(last - number * row.divisor) * step;
    y[gathers ? last : at] = x[gathers ? at : last];
  }

 private:
  TANDEM_DEVICE_CALL std::int64_t begin_of(std::uint32_t number) const { return rows.offset(number); }
};

// y = x where x is contiguous along dimension a and y along dimension b: tiles through shared memory, so that both are read and written
// along their own order, `width` elements at once.
template <class Unit, int width, int tile>
struct TransposeBody {
  static constexpr int lanes = 32, lines = 8, threads = lanes * lines;  // lines of a tile at once
  static constexpr bool cooperative = true;
  const Unit* x;
  Unit* y;
  std::int32_t size_a, size_b, tiles_a, tiles_b;
  std::int64_t x_stride_b, y_stride_a;
  Nest<2> outer;  // the other dimensions, of (y, x)

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    constexpr int stride = tile + width;
    Unit* const buffer = t.template shared<Unit, tile * stride, 0>();
    const int fast = t.thread() % lanes * width, slow = t.thread() / lanes;
    const auto block = static_cast<std::uint32_t>(t.block()), row = block / static_cast<std::uint32_t>(tiles_b),
               rest = row / static_cast<std::uint32_t>(tiles_a);
    const auto b0 = static_cast<std::int32_t>(block - row * tiles_b) * tile, a0 = static_cast<std::int32_t>(row - rest * tiles_a) * tile;
    std::int64_t at[2];
    outer.offsets(rest, at);
    const Unit* const from = x + at[1] + a0 + fast + (b0 + slow) * x_stride_b;
    Unit* const to = y + at[0] + b0 + fast + (a0 + slow) * y_stride_a;
    TANDEM_UNROLL(unroll)
    for (int line = 0; line < tile; line += lines)
      TANDEM_UNROLL(unroll)
      for (int i = 0; i < tile; i += lanes * width)
        if (a0 + fast + i < size_a && b0 + slow + line < size_b)
          write_at(buffer, (line + slow) * stride + fast + i, read_at<width>(from, line * x_stride_b + i));
    t.sync();
    TANDEM_UNROLL(unroll)
    for (int line = 0; line < tile; line += lines)
      TANDEM_UNROLL(unroll)
      for (int i = 0; i < tile; i += lanes * width)
        if (b0 + fast + i < size_b && a0 + slow + line < size_a) {
          Pack<Unit, width> column;
          for (int k = 0; k < width; ++k) column.v[k] = buffer[(fast + i + k) * stride + line + slow];
          write_at(to, line * y_stride_a + i, column);
        }
  }
};

}  // namespace tandem::cuda
