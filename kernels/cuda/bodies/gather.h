// Gather and GatherElements, and their gradients.
#pragma once
#include "kernels/cuda/bodies/index.h"
#include "kernels/cuda/bodies/pack.h"
#include "kernels/cuda/bodies/sorted_places.h"

namespace tandem::cuda {

TANDEM_DEVICE std::int64_t read_index(const void* indices, bool wide, std::int64_t i) {
  return wide ? static_cast<const std::int64_t*>(indices)[i] : static_cast<const std::int32_t*>(indices)[i];
}

// The rows that indices along an axis pick from; -1: none.
struct IndexRows {
  const void* indices;
  bool wide;  // int64 indices, else int32
  std::int64_t axis;
  TANDEM_DEVICE std::int64_t row(std::int64_t i) const {
    std::int64_t index = read_index(indices, wide, i);
    if (index < 0) index += axis;
    return index >= 0 && index < axis ? index : -1;
  }
};

// y[outer, k, inner] = x[outer, indices[k], inner], all row-major, in packs.
template <class Unit, int width>
struct GatherBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const Unit* x;
  IndexRows indices;
  Unit* y;
  Unit invalid;
  std::int64_t count, inner, packs;  // inner: packs of a row

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < packs; i += t.blocks() * threads) {
      const std::int64_t row = i / inner, c = i - row * inner, outer = row / count;
      const std::int64_t index = indices.row(row - outer * count);
      Pack<Unit, width> pack;
      if (index >= 0)
        pack = read_pack<width>(x, (outer * indices.axis + index) * inner + c);
      else
        for (Unit& u : pack.v) u = invalid;
      write_pack(y, i, pack);
    }
  }
};

// dx[outer, indices[k], inner] = Σ dy over the places of equal index; dx is zero elsewhere already. Places are sorted by row and summed
// in pieces of as many, in their order: a row whose places lie in one piece is written, of others each piece leaves what it has,
// partial[outer, piece, 0] where the row began before it, else partial[outer, piece, 1].
inline constexpr int gather_piece = 32;
template <class T>
struct GatherSums {
  using C = Compute<T>;
  const T* dy;
  const std::uint64_t* keys;
  T* dx;
  C* partial;
  std::int64_t axis, count, inner, pieces, items;  // inner: packs of a row; items: threads' work, outer · pieces · inner

  struct Item {
    std::int64_t outer, piece, pack;
  };
  TANDEM_DEVICE Item item(std::int64_t i) const {
    const std::int64_t piece = i / inner, outer = piece / pieces;
    return {outer, piece - outer * pieces, i - piece * inner};
  }
  TANDEM_DEVICE std::int64_t slot(const Item& i, std::int64_t piece, bool starts) const {
    return ((i.outer * pieces + piece) * 2 + starts) * inner + i.pack;
  }
  TANDEM_DEVICE std::uint64_t row(std::int64_t k) const { return k >= 0 && k < count ? row_of(keys[k]) : no_row; }
  template <int width>
  TANDEM_DEVICE void write(const Item& i, std::uint64_t row, const Pack<C, width>& sum) const {
    Pack<T, width> pack;
    for (int v = 0; v < width; ++v) pack.v[v] = store<T>(sum.v[v]);
    write_pack(dx, (i.outer * axis + static_cast<std::int64_t>(row)) * inner + i.pack, pack);
  }
};

template <class T, int width>
struct GatherPiecesBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  using C = Compute<T>;
  GatherSums<T> g;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < g.items; i += t.blocks() * threads) {
      const auto item = g.item(i);
      const std::int64_t begin = item.piece * gather_piece, end = begin + gather_piece < g.count ? begin + gather_piece : g.count;
      std::uint64_t row = g.row(begin);
      bool before = begin > 0 && g.row(begin - 1) == row;
      Pack<C, width> sum{};
      const auto finish = [&](bool behind) {
        if (row == no_row) return;
        if (before || behind)
          write_pack(g.partial, g.slot(item, item.piece, !before), sum);
        else
          g.write(item, row, sum);
      };
      constexpr int ahead = 4;  // rows that are under way
      for (std::int64_t k = begin; k < end; k += ahead) {
        std::uint64_t keys[ahead];
        Pack<T, width> rows[ahead];
        for (int j = 0; j < ahead; ++j) keys[j] = g.keys[k + j < end ? k + j : end - 1];
        for (int j = 0; j < ahead; ++j) rows[j] = read_pack<width>(g.dy, (item.outer * g.count + place_of(keys[j])) * g.inner + item.pack);
        for (int j = 0; j < ahead && k + j < end; ++j) {
          if (row_of(keys[j]) != row) {
            finish(false);
            row = row_of(keys[j]);
            before = false;
            sum = {};
          }
          for (int v = 0; v < width; ++v) sum.v[v] += load(rows[j].v[v]);
        }
      }
      finish(end < g.count && g.row(end) == row);
    }
  }
};

// Of rows that go on behind the piece where they start: what the pieces left.
template <class T, int width>
struct GatherSpansBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  using C = Compute<T>;
  GatherSums<T> g;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < g.items; i += t.blocks() * threads) {
      const auto item = g.item(i);
      const std::int64_t begin = item.piece * gather_piece;
      std::int64_t end = begin + gather_piece;
      const std::uint64_t row = g.row(end - 1);
      if (end >= g.count || row == no_row || g.row(end) != row) continue;
      if (begin > 0 && g.row(begin) == row && g.row(begin - 1) == row) continue;  // it started before
      Pack<C, width> sum = read_pack<width>(g.partial, g.slot(item, item.piece, true));
      for (std::int64_t piece = item.piece + 1; g.row(end) == row; ++piece, end += gather_piece) {
        const Pack<C, width> more = read_pack<width>(g.partial, g.slot(item, piece, false));
        for (int v = 0; v < width; ++v) sum.v[v] += more.v[v];
      }
      g.write(item, row, sum);
    }
  }
};

// y[outer, k, inner] = x[outer, indices[outer, k, inner], inner], all row-major.
template <class Unit>
struct GatherElementsBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const Unit* x;
  IndexRows indices;
  Unit* y;
  Unit invalid;
  std::int64_t count, inner, elements;  // count of indices along the axis

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::int64_t c = i % inner, outer = i / inner / count;
      const std::int64_t index = indices.row(i);
      y[i] = index >= 0 ? x[(outer * indices.axis + index) * inner + c] : invalid;
    }
  }
};

// dx[outer, indices[outer, k, inner], inner] = Σ dy over the k of equal index, in their order: summed by the thread of the
// first of them. dx is zero elsewhere already. Of few k: each looks at all others of its line.
template <class T>
struct GatherElementsBackwardBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const T* dy;
  IndexRows indices;
  T* dx;
  std::int64_t count, inner, elements;  // of dy

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      const std::int64_t c = i % inner, outer = i / inner / count, begin = outer * count * inner + c, end = begin + count * inner;
      const std::int64_t own = indices.row(i);
      std::int64_t before = i - inner;
      while (before >= begin && indices.row(before) != own) before -= inner;
      if (before >= begin || own < 0) continue;
      Compute<T> sum = 0;
      for (std::int64_t k = i; k < end; k += inner)
        if (indices.row(k) == own) sum += load(dy[k]);
      dx[(outer * indices.axis + own) * inner + c] = store<T>(sum);
    }
  }
};

}  // namespace tandem::cuda
