// Blocks of products of bfloat16 numbers, two at a time, by the instruction that has a processor with AVX512_BF16: VDPBF16PS adds the
// products of a pair to each lane's sum, in order, each rounded. Written out, so that this file needs no flags of its own.
#include "kernels/cpu/native/vector/parts.h"

#if defined(__AVX512BW__)
#include <immintrin.h>

namespace tandem::vector::TANDEM_ISA {
namespace {

using std::int64_t;
using std::uint16_t;
using std::uint32_t;

// A tile's sums stay in registers, beside a line of b and one pair of a. Rows have an address each, in a register, but where they
// are neighbours.
constexpr int lanes = 16, block_vectors = 4, sums_of_tile = 24, apart_rows = 6, most_rows = 12;
constexpr int rows_of(int vectors) { return sums_of_tile / vectors < most_rows ? sums_of_tile / vectors : most_rows; }

__mmask16 first(int64_t n) { return static_cast<__mmask16>(n >= lanes ? 0xffffU : (1U << n) - 1U); }
__m512 multiplied(__m512 sum, __m512i a, __m512i b) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
  return sum;
}
__m256i narrowed(__m512 v) {
  __m256i h;
  asm("vcvtneps2bf16 %1, %0" : "=v"(h) : "v"(v));
  return h;
}
// Sixteen pairs: a low number, and a high one.
__m512i paired(__m256i low, __m256i high) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(low), _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
}

template <int vectors, int rows, bool neighbours>
void tile(const DotBlock& t) {
  __m512 sum[rows][vectors];
  const __mmask16 last = first(t.columns - (vectors - 1) * lanes);
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const float* const from = t.c + i * t.c_row + v * lanes;
      sum[i][v] = !t.accumulate ? _mm512_setzero_ps() : v + 1 < vectors ? _mm512_loadu_ps(from) : _mm512_maskz_loadu_ps(last, from);
    }
  const uint32_t* a[neighbours ? 1 : rows];
  a[0] = t.a;
  if constexpr (!neighbours)
#pragma GCC unroll 12
    for (int i = 1; i < rows; ++i) a[i] = t.a + i * t.a_row;
  const auto steps = [&](auto&& load_last) {
    for (int64_t l = 0; l < t.lines; ++l) {
      const uint32_t* b = t.b + l * t.b_line;
      for (int64_t p = 0, at = l * t.a_line; p < t.pairs; ++p, at += t.a_step, b += t.b_step) {
        __m512i line[vectors];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v)
          line[v] = v + 1 < vectors ? _mm512_loadu_si512(b + v * t.b_vector) : load_last(b + v * t.b_vector);
#pragma GCC unroll 12
        for (int i = 0; i < rows; ++i) {
          const __m512i one = _mm512_set1_epi32(static_cast<int>(neighbours ? a[0][at + i] : a[i][at]));
#pragma GCC unroll 4
          for (int v = 0; v < vectors; ++v) sum[i][v] = multiplied(sum[i][v], one, line[v]);
        }
      }
    }
  };
  if (last == 0xffff)
    steps([](const uint32_t* p) { return _mm512_loadu_si512(p); });
  else
    steps([&](const uint32_t* p) { return _mm512_maskz_loadu_epi32(last, p); });
#pragma GCC unroll 12
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      float* const to = t.c + i * t.c_row + v * lanes;
      v + 1 < vectors ? _mm512_storeu_ps(to, sum[i][v]) : _mm512_mask_storeu_ps(to, last, sum[i][v]);
    }
}

using Tile = void (*)(const DotBlock&);
struct Tiles {
  Tile apart[block_vectors][apart_rows], neighbours[block_vectors][most_rows];
};
template <int vectors = 1, int rows = 1>
constexpr void fill(Tiles& tiles) {
  if constexpr (rows <= apart_rows) tiles.apart[vectors - 1][rows - 1] = tile<vectors, rows, false>;
  tiles.neighbours[vectors - 1][rows - 1] = tile<vectors, rows, true>;
  if constexpr (rows < rows_of(vectors))
    fill<vectors, rows + 1>(tiles);
  else if constexpr (vectors < block_vectors)
    fill<vectors + 1, 1>(tiles);
}
constexpr Tiles all_tiles() {
  Tiles tiles{};
  fill(tiles);
  return tiles;
}

// Tiles from the top down in columns of tiles: a strip of b stays in the nearest cache.
void block(const DotBlock& p) {
  static constexpr Tiles tiles = all_tiles();
  constexpr int64_t width = block_vectors * lanes;
  const bool neighbours = p.a_row == 1;
  for (int64_t j = 0; j < p.columns; j += width) {
    DotBlock t = p;
    t.columns = p.columns - j < width ? p.columns - j : width;
    t.b += j / lanes * p.b_vector;
    const int64_t v = (t.columns - 1) / lanes, height = neighbours ? rows_of(static_cast<int>(v) + 1) : apart_rows,
                  down = (p.rows + height - 1) / height;
    for (int64_t i = 0; i < down; ++i) {
      const int64_t top = p.rows * i / down;
      t.rows = p.rows * (i + 1) / down - top;
      t.a = p.a + top * p.a_row;
      t.c = p.c + top * p.c_row + j;
      (neighbours ? tiles.neighbours[v] : tiles.apart[v])[t.rows - 1](t);
    }
  }
}

void narrow(uint16_t* to, const float* from, int64_t n) {
  for (int64_t i = 0; i < n; i += lanes) {
    const __mmask16 some = first(n - i);
    _mm256_mask_storeu_epi16(to + i, some, narrowed(_mm512_maskz_loadu_ps(some, from + i)));
  }
}

__m256i loaded(const uint16_t* p, __mmask16 some) { return _mm256_maskz_loadu_epi16(some, p); }
__m256i loaded(const float* p, __mmask16 some) { return narrowed(_mm512_maskz_loadu_ps(some, p)); }

template <class T>
void pair_lines(uint32_t* to, int64_t to_row, const T* from, int64_t row, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; r += 2, from += 2 * row, to += to_row)
    for (int64_t i = 0; i < n; i += lanes) {
      const __mmask16 some = first(n - i);
      const __m256i low = loaded(from + i, some), high = r + 1 < rows ? loaded(from + row + i, some) : _mm256_setzero_si256();
      _mm512_mask_storeu_epi32(to + i, some, paired(low, high));
    }
}

// Eight rows hide each other's latency; of a vector one lane is wanted.
void inner_products(const uint32_t* a, const uint32_t* b, int64_t b_row, int64_t rows, int64_t pairs, float* sums) {
  constexpr int64_t together = 8;
  for (int64_t i = 0; i < rows; i += together, a += together * pairs, b += together * b_row) {
    const int64_t some = rows - i < together ? rows - i : together;
    __m512 sum[together] = {};
    for (int64_t p = 0; p < pairs; ++p)
#pragma GCC unroll 8
      for (int64_t k = 0; k < together; ++k) {
        const int64_t r = k < some ? k : 0;
        sum[k] = multiplied(sum[k], _mm512_castsi128_si512(_mm_cvtsi32_si128(static_cast<int>(a[r * pairs + p]))),
                            _mm512_castsi128_si512(_mm_cvtsi32_si128(static_cast<int>(b[r * b_row + p]))));
      }
    for (int64_t k = 0; k < some; ++k) sums[i + k] = _mm512_cvtss_f32(sum[k]);
  }
}

}  // namespace

const Dots* dots() {
  static constexpr Dots all = {block, narrow, pair_lines<uint16_t>, pair_lines<float>, inner_products};
  return &all;
}

}  // namespace tandem::vector::TANDEM_ISA
#else
namespace tandem::vector::TANDEM_ISA {
const Dots* dots() { return nullptr; }
}  // namespace tandem::vector::TANDEM_ISA
#endif
