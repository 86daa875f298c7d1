// Blocks of matrix products. Each element is summed in order by fused multiply-adds, however the operands lie and whatever the
// block is, so that results depend on neither.
#include "kernels/cpu/native/vector/lanes.h"
#include "kernels/cpu/native/vector/parts.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace tandem::vector::TANDEM_ISA {
namespace {

using std::int64_t;

// A tile's sums stay in registers, beside a row of b and one number of a.
constexpr int registers = lanes == 16 ? 28 : 12;
constexpr int panel_vectors = 2, panel_rows = registers / panel_vectors, panel_columns = panel_vectors * lanes;
constexpr int block_vectors = lanes == 16 ? 4 : 2;  // of operands that lie as they are: each row of a tile has an address in a register
constexpr int block_rows = 6;

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

// panel_a, panel_b: the operand is packed; else it lies in memory with any strides, b's columns one after another. One function: the sums
// stay in registers.
template <int vectors, int rows, bool panel_a, bool panel_b>
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
  // An address for every five rows: the others are some multiples of a row away, which an instruction can add.
  constexpr int each = 5;
  const int64_t row = t.a_row;
  const float *a[] = {t.a, t.a + (rows > each ? each * row : 0), t.a + (rows > 2 * each ? 2 * each * row : 0)}, *b = t.b;
  // Between steps memory is fetched: what will be written, each row's both ends, and what others will read.
  constexpr int64_t stride = 4;
  const int64_t size = t.narrow ? sizeof(std::uint16_t) : sizeof(float), row_bytes = t.c_row * size, row_end = (t.columns - 1) * size;
  const char* line_of_c = static_cast<const char*>(t.c);
  const char* ahead[2] = {static_cast<const char*>(t.ahead[0]), static_cast<const char*>(t.ahead[1])};
  int left_of_c = rows;
  const auto steps = [&](auto&& load_last) {
    for (int64_t p = 0; p < t.inner; ++p) {
      if (panel_b && p % stride == 0) {
        if (left_of_c > 0) {
          __builtin_prefetch(line_of_c, 1);
          __builtin_prefetch(line_of_c + row_end, 1);
          line_of_c += row_bytes;
          --left_of_c;
        }
        __builtin_prefetch(ahead[0]);
        __builtin_prefetch(ahead[1]);
        ahead[0] += stride * sizeof(float);
        ahead[1] += stride * sizeof(float);
      }
      Lanes line[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) line[v] = v + 1 < vectors ? load(b + v * lanes) : load_last(b + v * lanes);
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i) {
        const float one = panel_a ? a[0][i] : a[i / each][i % each * row];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sum[i][v] += one * line[v];
      }
#pragma GCC unroll 3
      for (const float*& at : a) at += panel_a ? panel_rows : t.a_step;
      b += panel_b ? panel_columns : t.b_step;
    }
  };
  if (panel_b || whole)
    steps([](const float* p) { return load(p); });
  else
    steps([&](const float* p) { return last.load(p); });
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      const Lanes zero{};
      const Lanes y = t.relu ? (zero > sum[i][v] ? zero : sum[i][v]) : sum[i][v];
      const auto write = [&](auto* to) { v + 1 < vectors || whole ? store(to, y) : last.store(to, y); };
      const int64_t at = i * t.c_row + v * lanes;
      t.narrow ? write(static_cast<std::uint16_t*>(t.c) + at) : write(c + at);
    }
}

using Tile = void (*)(const Product&);
template <int vectors, bool panel_a, bool panel_b, int rows, int most>
void fill(Tile* tiles) {
  tiles[rows - 1] = tile<vectors, rows, panel_a, panel_b>;
  if constexpr (rows < most) fill<vectors, panel_a, panel_b, rows + 1, most>(tiles);
}
struct Tiles {  // by vectors − 1 and rows − 1
  Tile panels[panel_vectors][panel_rows], panel_of_b[panel_vectors][panel_rows], block[block_vectors][block_rows];
};
template <int vectors = 1>
void fill(Tiles& tiles) {
  if constexpr (vectors <= panel_vectors) {
    fill<vectors, true, true, 1, panel_rows>(tiles.panels[vectors - 1]);
    fill<vectors, false, true, 1, panel_rows>(tiles.panel_of_b[vectors - 1]);
  }
  fill<vectors, false, false, 1, block_rows>(tiles.block[vectors - 1]);
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

void panels(const Product& p) { (p.a_row == 0 ? tiles().panels : tiles().panel_of_b)[(p.columns - 1) / lanes][p.rows - 1](p); }

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

// A processor's own fetching ahead stops at the ends of short lines.
constexpr int64_t squares_ahead = 4;

// `width` numbers of every line k: whole vectors, and what is left.
template <int width, class T>
void copy_lines(const T* from, int64_t step, int64_t inner, float* to) {
  constexpr int whole = width / lanes * lanes;
  constexpr Some rest{width - whole};
  for (int64_t k = 0; k < inner; ++k, from += step, to += width) {
#pragma GCC unroll 4
    for (int i = 0; i < whole; i += lanes) store(to + i, load(from + i));
    if constexpr (whole < width) rest.store(to + whole, rest.load(from + whole));
  }
}

// The same of any whole number of vectors.
template <class T>
void copy_whole_lines(const T* from, int64_t step, int64_t inner, float* to, int64_t width) {
  for (int64_t k = 0; k < inner; ++k, from += step, to += width)
    for (int64_t i = 0; i < width; i += lanes) store(to + i, load(from + i));
}

// sums[i] += Σ from[k·step + i], `count` of them.
template <class T>
void add_lines(const T* from, int64_t step, int64_t inner, float* sums, int64_t count) {
  for (int64_t i = 0; i < count; i += lanes) {
    const Some some{static_cast<int>(count - i < lanes ? count - i : lanes)};
    Lanes sum = some.load(sums + i);
    for (int64_t k = 0; k < inner; ++k) sum += some.load(from + k * step + i);
    some.store(sums + i, sum);
  }
}

// Lines one after another in memory: some of all panels are copied at a time, so that what is read together lies together, but no
// more than a set of the nearest cache holds where they lie a power of two apart. (Fetched ahead by instructions they would not fit.)
template <class T>
void pack_lines(const Panels& p, const T* from) {
  constexpr int64_t some = 8;
  for (int64_t k = 0; k < p.inner; k += some) {
    const int64_t deep = p.inner - k < some ? p.inner - k : some;
    for (int64_t top = 0; top < p.lines; top += p.width) {
      const int64_t left = p.lines - top < p.width ? p.lines - top : p.width;
      const T* const corner = from + k * p.step + top;
      float* const to = p.to + top / p.width * p.panel_step + k * p.width;
      if (left == panel_columns && p.width == panel_columns)
        copy_lines<panel_columns>(corner, p.step, deep, to);
      else if (left == panel_rows && p.width == panel_rows)
        copy_lines<panel_rows>(corner, p.step, deep, to);
      else if (left == p.width && p.width % lanes == 0)
        copy_whole_lines(corner, p.step, deep, to, p.width);
      else
        for (int64_t r = 0; r < deep; ++r)
          for (int64_t i = 0; i < p.width; i += lanes) {
            const int64_t room = p.width - i < lanes ? p.width - i : lanes, some_left = left - i < room ? left - i : room;
            const Lanes v = some_left > 0 ? Some{static_cast<int>(some_left)}.load(corner + r * p.step + i) : Lanes{};
            Some{static_cast<int>(room)}.store(to + r * p.width + i, v);
          }
      if (p.sums) add_lines(corner, p.step, deep, p.sums + top, left);
    }
  }
}

// A square of `lanes` lines, each `row` numbers behind the last, turned: column k into to[k].
#if defined(__AVX512F__)
void turn(const float* from, int64_t row, Lanes (&to)[lanes]) {
  const auto quarter = [&](int line, int k) { return _mm_loadu_ps(from + line * row + k); };
#pragma GCC unroll 4
  for (int k = 0; k < lanes; k += 4) {
    __m512 line[4];  // i, i + 4, i + 8, i + 12, four numbers of each
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      line[i] = _mm512_castps128_ps512(quarter(i, k));
      line[i] = _mm512_insertf32x4(line[i], quarter(i + 4, k), 1);
      line[i] = _mm512_insertf32x4(line[i], quarter(i + 8, k), 2);
      line[i] = _mm512_insertf32x4(line[i], quarter(i + 12, k), 3);
    }
    const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(line[0], line[1])), b = _mm512_castps_pd(_mm512_unpacklo_ps(line[2], line[3]));
    const __m512d c = _mm512_castps_pd(_mm512_unpackhi_ps(line[0], line[1])), d = _mm512_castps_pd(_mm512_unpackhi_ps(line[2], line[3]));
    to[k] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
    to[k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    to[k + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(c, d));
    to[k + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(c, d));
  }
}
#elif defined(__AVX2__)
void turn(const float* from, int64_t row, Lanes (&to)[lanes]) {
  const auto half = [&](int line, int k) { return _mm_loadu_ps(from + line * row + k); };
#pragma GCC unroll 2
  for (int k = 0; k < lanes; k += 4) {
    __m256 line[4];  // i and i + 4, four numbers of each
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) line[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(half(i, k)), half(i + 4, k), 1);
    const __m256d a = _mm256_castps_pd(_mm256_unpacklo_ps(line[0], line[1])), b = _mm256_castps_pd(_mm256_unpacklo_ps(line[2], line[3]));
    const __m256d c = _mm256_castps_pd(_mm256_unpackhi_ps(line[0], line[1])), d = _mm256_castps_pd(_mm256_unpackhi_ps(line[2], line[3]));
    to[k] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, b));
    to[k + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, b));
    to[k + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(c, d));
    to[k + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(c, d));
  }
}
#else
void turn(const float* from, int64_t row, Lanes (&to)[lanes]) {
  for (int k = 0; k < lanes; ++k)
    for (int i = 0; i < lanes; ++i) to[k][i] = from[i * row + k];
}
#endif

// Each line's numbers one after another: turned by squares. What is not a whole square of floats is made one first.
template <class T>
void pack_rows(const Panels& p, const T* from) {
  for (int64_t top = 0; top < p.lines; top += p.width) {
    float* const panel = p.to + top / p.width * p.panel_step;
    for (int64_t i = 0; i < p.width; i += lanes) {
      const int64_t room = p.width - i < lanes ? p.width - i : lanes, left = p.lines - top - i;
      for (int64_t k = 0; k < p.inner; k += lanes) {
        const int64_t deep = p.inner - k < lanes ? p.inner - k : lanes;
        float* const to = panel + k * p.width + i;
        if (left <= 0) {  // nothing of this square is there
          for (int64_t r = 0; r < deep; ++r) Some{static_cast<int>(room)}.store(to + r * p.width, Lanes{});
          continue;
        }
        const T* const corner = from + (top + i) * p.line + k;
        for (int64_t r = 0; r < lanes; ++r) __builtin_prefetch(corner + r * p.line + squares_ahead * lanes);
        Lanes columns[lanes];
        if (sizeof(T) == sizeof(float) && left >= lanes && deep == lanes) {
          turn(reinterpret_cast<const float*>(corner), p.line, columns);
        } else {
          float square[lanes * lanes];
          for (int64_t r = 0; r < lanes; ++r)
            store(square + r * lanes, r >= left       ? Lanes{}
                                      : deep == lanes ? load(corner + r * p.line)
                                                      : Some{static_cast<int>(deep)}.load(corner + r * p.line));
          turn(square, lanes, columns);
        }
#pragma GCC unroll 16
        for (int r = 0; r < lanes; ++r)
          if (r < deep)
            room == lanes ? store(to + r * p.width, columns[r]) : Some{static_cast<int>(room)}.store(to + r * p.width, columns[r]);
      }
    }
  }
}

inline float number(float x) { return x; }
inline float number(std::uint16_t x) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(x) << 16); }

template <class T>
void pack_any(const Panels& p, const T* from) {
  for (int64_t top = 0; top < p.lines; top += p.width)
    for (int64_t k = 0; k < p.inner; ++k)
      for (int64_t i = 0; i < p.width; ++i)
        p.to[top / p.width * p.panel_step + k * p.width + i] = top + i < p.lines ? number(from[(top + i) * p.line + k * p.step]) : 0.0F;
}

template <class T>
void pack(const Panels& p) {
  const T* const from = static_cast<const T*>(p.from);
  if (p.line == 1) return pack_lines(p, from);
  (p.step == 1 ? pack_rows<T> : pack_any<T>)(p, from);
  if (!p.sums) return;
  for (int64_t top = 0; top < p.lines; top += p.width)
    add_lines(p.to + top / p.width * p.panel_step, p.width, p.inner, p.sums + top, p.lines - top < p.width ? p.lines - top : p.width);
}

}  // namespace

const Products& products() {
  static const Products all{panel_rows, panel_columns, block, panels,
                            [](const Panels& p) { p.narrow ? pack<std::uint16_t>(p) : pack<float>(p); }};
  return all;
}

}  // namespace tandem::vector::TANDEM_ISA
