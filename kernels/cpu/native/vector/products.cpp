// Blocks of matrix products. Each element is summed in order by fused multiply-adds, however the operands lie and whatever the
// block is, so that results depend on neither.
#include "kernels/cpu/native/vector/parts.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace tandem::vector::TANDEM_ISA {
namespace {

using std::int64_t;

#if defined(__AVX512F__)
constexpr int lanes = 16;
#elif defined(__AVX2__)
constexpr int lanes = 8;
#else
constexpr int lanes = 4;
#endif
using Lanes [[gnu::vector_size(lanes * sizeof(float)), gnu::aligned(alignof(float)), gnu::may_alias]] = float;
using Words [[gnu::vector_size(lanes * sizeof(std::uint32_t)), gnu::aligned(alignof(float)), gnu::may_alias]] = std::uint32_t;
using Halves [[gnu::vector_size(lanes * sizeof(std::uint16_t)), gnu::aligned(alignof(std::uint16_t)), gnu::may_alias]] = std::uint16_t;

// A tile's sums stay in registers, beside a row of b and one number of a.
constexpr int registers = lanes == 16 ? 28 : 12;
constexpr int panel_vectors = 2, panel_rows = registers / panel_vectors, panel_columns = panel_vectors * lanes;
constexpr int block_vectors = lanes == 16 ? 4 : 2;  // of operands that lie as they are: each row of a tile has an address in a register
constexpr int block_rows = 6;

Lanes widen(Halves h) { return __builtin_bit_cast(Lanes, __builtin_convertvector(h, Words) << 16); }
Halves narrow(Lanes v) {
  const Words b = __builtin_bit_cast(Words, v);
  const Words rounded = (b + 0x7fffu + (b >> 16 & 1u)) >> 16, quiet = b >> 16 | 0x40u;
  return __builtin_convertvector((b & 0x7fffffffu) > 0x7f800000u ? quiet : rounded, Halves);
}

Lanes load(const float* p) { return *reinterpret_cast<const Lanes*>(p); }
Lanes load(const std::uint16_t* p) { return widen(*reinterpret_cast<const Halves*>(p)); }
void store(float* p, Lanes v) { *reinterpret_cast<Lanes*>(p) = v; }
void store(std::uint16_t* p, Lanes v) { *reinterpret_cast<Halves*>(p) = narrow(v); }

// The first n lanes; those behind them are not touched in memory, and 0 in a vector.
struct Some {
  int n;
#if defined(__AVX512F__)
  Lanes load(const float* p) const { return _mm512_maskz_loadu_ps(mask(), p); }
  Lanes load(const std::uint16_t* p) const { return widen(reinterpret_cast<Halves>(_mm256_maskz_loadu_epi16(mask(), p))); }
  void store(float* p, Lanes v) const { _mm512_mask_storeu_ps(p, mask(), v); }
  void store(std::uint16_t* p, Lanes v) const { _mm256_mask_storeu_epi16(p, mask(), reinterpret_cast<__m256i>(narrow(v))); }
  __mmask16 mask() const { return static_cast<__mmask16>((1U << n) - 1U); }
#else
  template <class T>
  Lanes load(const T* p) const {
    T values[lanes] = {};
    __builtin_memcpy(values, p, static_cast<std::size_t>(n) * sizeof(T));
    return TANDEM_ISA::load(values);
  }
  template <class T>
  void store(T* p, Lanes v) const {
    T values[lanes];
    TANDEM_ISA::store(values, v);
    __builtin_memcpy(p, values, static_cast<std::size_t>(n) * sizeof(T));
  }
#endif
};

template <int vectors, int rows, bool packed>
void tile(const Product& t) {
  Lanes sum[rows][vectors];
  const Some last{static_cast<int>(t.columns - (vectors - 1) * lanes)};
  const bool whole = last.n == lanes;
  float* const c = static_cast<float*>(t.c);
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const float* const from = t.accumulate ? c + i * t.c_row + v * lanes : t.bias ? t.bias + v * lanes : nullptr;
      sum[i][v] = !from ? Lanes{} : v + 1 < vectors || whole ? load(from) : last.load(from);
    }
  const float *a = t.a, *b = t.b;
  const auto steps = [&](auto&& load_last) {
    for (int64_t p = 0; p < t.inner; ++p) {
      Lanes line[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) line[v] = v + 1 < vectors ? load(b + v * lanes) : load_last(b + v * lanes);
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i) {
        const float one = packed ? a[i] : a[i * t.a_row];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sum[i][v] += one * line[v];
      }
      a += packed ? panel_rows : t.a_step;
      b += packed ? panel_columns : t.b_step;
    }
  };
  if (packed || whole)
    steps([](const float* p) { return load(p); });
  else
    steps([&](const float* p) { return last.load(p); });
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const Lanes zero{};
      const Lanes y = t.relu ? (sum[i][v] > zero ? sum[i][v] : zero) : sum[i][v];
      const auto write = [&](auto* to) { v + 1 < vectors || whole ? store(to, y) : last.store(to, y); };
      const int64_t at = i * t.c_row + v * lanes;
      t.narrow ? write(static_cast<std::uint16_t*>(t.c) + at) : write(c + at);
    }
}

using Tile = void (*)(const Product&);
template <int vectors, bool packed, int rows, int most>
void fill(Tile* tiles) {
  tiles[rows - 1] = tile<vectors, rows, packed>;
  if constexpr (rows < most) fill<vectors, packed, rows + 1, most>(tiles);
}
struct Tiles {
  Tile packed[panel_vectors][panel_rows], block[block_vectors][block_rows];  // by vectors − 1 and rows − 1
};
template <int vectors = 1>
void fill(Tiles& tiles) {
  if constexpr (vectors <= panel_vectors) fill<vectors, true, 1, panel_rows>(tiles.packed[vectors - 1]);
  fill<vectors, false, 1, block_rows>(tiles.block[vectors - 1]);
  if constexpr (vectors < block_vectors) fill<vectors + 1>(tiles);
}
const Tiles& tiles() {
  static const Tiles all = [] {
    Tiles t{};
    fill(t);
    return t;
  }();
  return all;
}

void packed(const Product& p) { tiles().packed[(p.columns - 1) / lanes][p.rows - 1](p); }

// Tiles from the top down in columns of tiles: a strip of b stays in the nearest cache.
void block(const Product& p) {
  constexpr int64_t width = block_vectors * lanes;
  const int64_t size = p.narrow ? sizeof(std::uint16_t) : sizeof(float);
  const int64_t down = (p.rows + block_rows - 1) / block_rows;
  for (int64_t j = 0; j < p.columns; j += width)
    for (int64_t i = 0; i < down; ++i) {
      const int64_t top = p.rows * i / down;
      Product t = p;
      t.rows = p.rows * (i + 1) / down - top;
      t.columns = p.columns - j < width ? p.columns - j : width;
      t.a += top * p.a_row;
      t.b += j;
      t.c = static_cast<char*>(p.c) + (top * p.c_row + j) * size;
      t.bias = p.bias ? p.bias + j : nullptr;
      tiles().block[(t.columns - 1) / lanes][t.rows - 1](t);
    }
}

// v[i] lane k and v[k] lane i change places: lanes a distance apart, for each power of two.
void transpose(Lanes (&v)[lanes]) {
#pragma GCC unroll 4
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    using Index = Words;
    Index low, high;
#pragma GCC unroll 16
    for (int k = 0; k < lanes; ++k) {
      low[k] = static_cast<std::uint32_t>(k & distance ? lanes + k - distance : k);
      high[k] = static_cast<std::uint32_t>(k & distance ? lanes + k : k + distance);
    }
#pragma GCC unroll 16
    for (int i = 0; i < lanes; ++i)
      if (!(i & distance)) {
        const Lanes x = v[i], y = v[i + distance];
        v[i] = __builtin_shuffle(x, y, low);
        v[i + distance] = __builtin_shuffle(x, y, high);
      }
  }
}

// Rows one after another in memory: whole lines are copied.
template <class T>
void pack_lines(const Panel& p, const T* from) {
  for (int64_t k = 0; k < p.inner; ++k)
    for (int64_t i = 0; i < p.width; i += lanes) {
      const int64_t room = p.width - i < lanes ? p.width - i : lanes, left = p.rows - i < room ? p.rows - i : room;
      const T* const line = from + k * p.step + i;
      const Lanes v = left >= lanes ? load(line) : left > 0 ? Some{static_cast<int>(left)}.load(line) : Lanes{};
      float* const to = p.to + k * p.width + i;
      room == lanes ? store(to, v) : Some{static_cast<int>(room)}.store(to, v);
    }
}

// Each row's numbers one after another: turned by squares.
template <class T>
void pack_rows(const Panel& p, const T* from) {
  for (int64_t i = 0; i < p.width; i += lanes) {
    const int64_t room = p.width - i < lanes ? p.width - i : lanes;
    for (int64_t k = 0; k < p.inner; k += lanes) {
      const int64_t deep = p.inner - k < lanes ? p.inner - k : lanes;
      Lanes square[lanes];
#pragma GCC unroll 16
      for (int r = 0; r < lanes; ++r) {
        const T* const row = from + (i + r) * p.row + k;
        square[r] = i + r >= p.rows ? Lanes{} : deep == lanes ? load(row) : Some{static_cast<int>(deep)}.load(row);
      }
      transpose(square);
      float* const to = p.to + k * p.width + i;
#pragma GCC unroll 16
      for (int r = 0; r < lanes; ++r)
        if (r < deep) room == lanes ? store(to + r * p.width, square[r]) : Some{static_cast<int>(room)}.store(to + r * p.width, square[r]);
    }
  }
}

inline float number(float x) { return x; }
inline float number(std::uint16_t x) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(x) << 16); }

template <class T>
void pack_any(const Panel& p, const T* from) {
  for (int64_t k = 0; k < p.inner; ++k)
    for (int64_t i = 0; i < p.width; ++i) p.to[k * p.width + i] = i < p.rows ? number(from[i * p.row + k * p.step]) : 0.0F;
}

template <class T>
void pack(const Panel& p) {
  const T* const from = static_cast<const T*>(p.from);
  (p.row == 1 ? pack_lines<T> : p.step == 1 ? pack_rows<T> : pack_any<T>)(p, from);
}

}  // namespace

const Products& products() {
  static const Products all{panel_rows, panel_columns, block, packed, [](const Panel& p) { p.narrow ? pack<std::uint16_t>(p) : pack<float>(p); }};
  return all;
}

}  // namespace tandem::vector::TANDEM_ISA
