// Matrices [samples][rows, channels], which is what tensors laid out channels last are, as blocks of threads walk them: a thread
// meets the same pack of channels in row after row, so that what it knows of them stays in registers and no index is divided.
#pragma once
#include "kernels/cuda/bodies/pack.h"

namespace tandem::cuda {

inline constexpr int tile_threads = 256;

// Where one thread works, in packs.
struct TilePlace {
  std::int64_t sample, split, first, step, rows;  // its first pack and the way to the next one, of so many rows
  std::int32_t pack;                              // of a row; past the last one where `inside` is false
  int column;                                     // of the tile
  bool inside;
};

// `splits` blocks share the rows of a sample, and each has one at least where there are any; `tiles` share a row.
struct ChannelTiles {
  std::int64_t samples, rows;  // rows: of a sample
  std::int32_t packs;          // of a row
  std::int32_t columns;        // packs of a tile, a power of two
  std::int32_t tiles, splits;

  TANDEM_DEVICE std::int64_t share() const { return (rows + splits - 1) / splits; }
  TANDEM_DEVICE std::int64_t rows_of(std::int64_t split) const {
    const std::int64_t left = rows - split * share();
    return left < 0 ? 0 : left < share() ? left : share();
  }
  template <class Thread>
  TANDEM_DEVICE TilePlace place(const Thread& t) const {
    const std::int64_t tile = t.block() / splits % tiles;
    const int column = t.thread() % columns, row = t.thread() / columns, turn = tile_threads / columns;
    TilePlace p{t.block() / splits / tiles,
                t.block() % splits,
                0,
                std::int64_t{turn} * packs,
                0,
                static_cast<std::int32_t>(tile) * columns + column,
                column,
                false};
    p.inside = p.pack < packs;
    p.first = (p.sample * rows + p.split * share() + row) * packs + p.pack;
    if (p.inside) p.rows = (rows_of(p.split) - row + turn - 1) / turn;
    return p;
  }
};

// write(v, column, Σ of mine[v] of the block's threads in that column), by one thread each; the same in every run.
template <int values, class C, class Thread, class Write>
TANDEM_DEVICE void sum_columns(const Thread& t, int columns, const C (&mine)[values], Write write) {
  C* const part = t.template shared<C, values * tile_threads, 0>();
  for (int v = 0; v < values; ++v) part[v * tile_threads + t.thread()] = mine[v];
  t.sync();
  for (int o = t.thread(); o < columns * values; o += tile_threads) {
    const int v = o / columns, column = o % columns;
    C sum = 0;
    for (int r = column; r < tile_threads; r += columns) sum += part[v * tile_threads + r];
    write(v, column, sum);
  }
}

}  // namespace tandem::cuda
