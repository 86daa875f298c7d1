// Tiles of convolutions, channels last. Vectors of eight lanes: a block of eight channels wastes less of a layer with few
// channels than one of sixteen does, and where a core has one unit of 512 bits it has two of 256.
#include "kernels/cpu/native/vector/parts.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace tandem::vector::TANDEM_ISA {
namespace {

using std::int64_t;

constexpr int lanes = 8;
using Lanes [[gnu::vector_size(lanes * sizeof(float)), gnu::aligned(alignof(float)), gnu::may_alias]] = float;
constexpr int registers =
#if defined(__AVX512VL__)
    24;
#else
    12;
#endif
constexpr int most_vectors = 4, most_rows = 8;  // `rows` of a tile have an address each, in a register
// Loops over vectors and rows are unrolled whole, or the sums would live in memory.
constexpr int rows_of(int vectors) { return registers / vectors < most_rows ? registers / vectors : most_rows; }

Lanes load(const float* p) { return *reinterpret_cast<const Lanes*>(p); }
void store(float* p, Lanes v) { *reinterpret_cast<Lanes*>(p) = v; }

// The first n lanes; those behind them are not touched in memory, and 0 in a vector.
struct Some {
#if defined(__AVX2__)
  __m256i mask;
  explicit Some(int n) : mask(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))) {}
  Lanes load(const float* p) const { return _mm256_maskload_ps(p, mask); }
  void store(float* p, Lanes v) const { _mm256_maskstore_ps(p, mask, v); }
#else
  std::size_t bytes;
  explicit Some(int n) : bytes(static_cast<std::size_t>(n) * sizeof(float)) {}
  Lanes load(const float* p) const {
    Lanes v{};
    __builtin_memcpy(&v, p, bytes);
    return v;
  }
  void store(float* p, Lanes v) const { __builtin_memcpy(p, &v, bytes); }
#endif
};

template <int vectors, int rows>
void forward(const ConvolutionTile& t) {
  Lanes sum[rows][vectors];
  const Some last(t.last);
#pragma GCC unroll 8
  for (int v = 0; v < vectors; ++v) {
    const Lanes start = !t.bias ? Lanes{} : v + 1 < vectors ? load(t.bias + v * lanes) : last.load(t.bias + v * lanes);
#pragma GCC unroll 8
    for (int p = 0; p < rows; ++p) sum[p][v] = start;
  }
  for (int64_t r = 0; r < t.lines; ++r)
    for (int64_t c = 0; c < t.columns; ++c) {
      const float *x = t.x + r * t.x_line + c * t.x_column, *w = t.w + r * t.w_line + c * t.w_column;
      for (int64_t k = 0; k < t.run; ++k) {
        Lanes weights[vectors];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) weights[v] = load(w + v * t.w_block + k * lanes);
#pragma GCC unroll 8
        for (int p = 0; p < rows; ++p) {
          const float one = x[p * t.x_step + k];
#pragma GCC unroll 8
          for (int v = 0; v < vectors; ++v) sum[p][v] += one * weights[v];
        }
      }
    }
#pragma GCC unroll 8
  for (int p = 0; p < rows; ++p)
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      const Lanes zero{};
      const Lanes y = t.relu ? (zero > sum[p][v] ? zero : sum[p][v]) : sum[p][v];
      float* const at = t.y + p * t.y_step + v * lanes;
      v + 1 < vectors ? store(at, y) : last.store(at, y);
    }
}

// Every size of tile that the registers hold.
template <int vectors, int rows = 1>
void fill(ConvolutionTiles& tiles) {
  tiles.forward[vectors - 1][rows - 1] = forward<vectors, rows>;
  tiles.rows[vectors - 1] = rows;
  if constexpr (rows < rows_of(vectors)) fill<vectors, rows + 1>(tiles);
}

}  // namespace

const ConvolutionTiles& convolution_tiles() {
  static const ConvolutionTiles all = [] {
    ConvolutionTiles tiles{};
    fill<1>(tiles);
    fill<2>(tiles);
    fill<3>(tiles);
    fill<most_vectors>(tiles);
    return tiles;
  }();
  return all;
}

}  // namespace tandem::vector::TANDEM_ISA
