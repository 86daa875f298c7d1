// Reductions of contiguous rows to one value, and of many rows element by element.
#include "kernels/cpu/native/vector/parts.h"
#include "kernels/cpu/native/vector/tile.h"
#include "kernels/cpu/native/vector/wide.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace tandem::vector::TANDEM_ISA {
namespace {

using std::int64_t;

struct Sum {
  template <class T>
  static T of(T a, T b) { return a + b; }
};
struct Prod {
  template <class T>
  static T of(T a, T b) { return a * b; }
};
// NaN wins. Of numbers and vectors of them.
struct Max {
  template <class T>
  static T of(T a, T b) { return (a > b) | (a != a) ? a : b; }
};
struct Min {
  template <class T>
  static T of(T a, T b) { return (a < b) | (a != a) ? a : b; }
};

// Lanes side by side are the order of summation: the same for every length of vector.
constexpr int lanes = 64;

// The sum and so on of `part`, in halves.
template <class T, class Op>
T folded(T* part) {
  for (int width = lanes / 2; width > 0; width /= 2)
    for (int k = 0; k < width; ++k) part[k] = Op::of(part[k], part[k + width]);
  return part[0];
}

template <class T, class Op>
T reduce_row(const T* x, int64_t n, T start) {
  T part[lanes];
  for (int k = 0; k < lanes; ++k) part[k] = start;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int k = 0; k < lanes; ++k) part[k] = Op::of(part[k], x[i + k]);
  for (int k = 0; i + k < n; ++k) part[k] = Op::of(part[k], x[i + k]);
  return folded<T, Op>(part);
}

using Lane [[gnu::vector_size(tile_size * 4)]] = float;
using LaneInMemory [[gnu::vector_size(tile_size * 4), gnu::aligned(4), gnu::may_alias]] = float;

// The first `count` of a vector, and `start` behind them.
inline Lane load_some(const float* x, int64_t count, float start) {
#ifdef TANDEM_WIDE
  return _mm512_mask_loadu_ps(_mm512_set1_ps(start), Wide::first(static_cast<int>(count)), x);
#elif defined(__AVX2__)
  const __m256i there = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  return _mm256_blendv_ps(_mm256_set1_ps(start), _mm256_maskload_ps(x, there), _mm256_castsi256_ps(there));
#else
  float all[tile_size];
  for (int k = 0; k < tile_size; ++k) all[k] = k < count ? x[k] : start;
  return *reinterpret_cast<const LaneInMemory*>(all);
#endif
}

// y[r] and all of row r. Short rows of floats go in groups: each becomes a vector of partial results, these are turned over, and what
// was a vector of each row is an element of each vector.
template <class T, class Op>
void reduce_each(T* y, const T* x, int64_t n, int64_t rows, T start) {
  int64_t r = 0;
  if constexpr (sizeof(T) == 4) {
    for (; n < 4 * lanes && r + tile_size <= rows; r += tile_size) {
      TileRegister parts[tile_size];
      for (int k = 0; k < tile_size; ++k) {
        const float* const row = x + (r + k) * n;
        Lane part = load_some(row, n < tile_size ? n : tile_size, start);
        int64_t i = tile_size;
        for (; i + tile_size <= n; i += tile_size) part = Op::of(part, Lane(*reinterpret_cast<const LaneInMemory*>(row + i)));
        if (i < n) part = Op::of(part, load_some(row + i, n - i, start));
        parts[k] = __builtin_bit_cast(TileRegister, part);
      }
      turn(parts);
      Lane all = *reinterpret_cast<const LaneInMemory*>(y + r);
      for (const TileRegister& part : parts) all = Op::of(all, __builtin_bit_cast(Lane, part));
      *reinterpret_cast<LaneInMemory*>(y + r) = all;
    }
  }
  for (; r < rows; ++r) y[r] = Op::of(y[r], reduce_row<T, Op>(x + r * n, n, start));
}

// `width` columns, `deep` rows at a time.
template <class T, class Op, int width, int deep>
void reduce_columns(T* y, const T* x, int64_t rows, int64_t stride) {
  T part[deep][width];
  for (int k = 0; k < width; ++k) part[0][k] = y[k];
  int64_t r = 0;
  if (rows >= deep) {
    for (int d = 1; d < deep; ++d)
      for (int k = 0; k < width; ++k) part[d][k] = x[d * stride + k];
    for (int k = 0; k < width; ++k) part[0][k] = Op::of(part[0][k], x[k]);
    for (r = deep; r + deep <= rows; r += deep)
      for (int d = 0; d < deep; ++d)
        for (int k = 0; k < width; ++k) part[d][k] = Op::of(part[d][k], x[(r + d) * stride + k]);
    for (int d = 1; d < deep; ++d)
      for (int k = 0; k < width; ++k) part[0][k] = Op::of(part[0][k], part[d][k]);
  }
  for (; r < rows; ++r)
    for (int k = 0; k < width; ++k) part[0][k] = Op::of(part[0][k], x[r * stride + k]);
  for (int k = 0; k < width; ++k) y[k] = part[0][k];
}

template <class T, class Op>
void reduce_rows(T* y, const T* x, int64_t n, int64_t rows, int64_t stride) {
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) reduce_columns<T, Op, lanes, 1>(y + j, x + j, rows, stride);
  for (; j + 16 <= n; j += 16) reduce_columns<T, Op, 16, 4>(y + j, x + j, rows, stride);
  for (; j < n; ++j)
    for (int64_t r = 0; r < rows; ++r) y[j] = Op::of(y[j], x[r * stride + j]);
}

template <class T>
void scale(const T* x, T* y, int64_t n, T factor) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
}
template <class T>
void shift(const T* x, T* y, int64_t n, T first, T second) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] - first - second;
}

// y = e^(x − max): gives the maximum and the sum, in the order of reduce_row.
template <class T>
void exponentials(const T* x, T* y, int64_t n, T* maximum, T* sum) {
  const T top = reduce_row<T, Max>(x, n, x[0]);
  T part[lanes] = {}, e[lanes];
  const auto add = [&](int64_t i, auto count) {
    for (int k = 0; k < count; ++k) e[k] = math::exp(x[i + k] - top);
    for (int k = 0; k < count; ++k) part[k] += e[k];
    for (int k = 0; k < count && y; ++k) y[i + k] = e[k];
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) add(i, std::integral_constant<int, lanes>());
  if (i < n) add(i, static_cast<int>(n - i));
  *maximum = top;
  *sum = folded<T, Sum>(part);
}
#ifdef TANDEM_WIDE
template <>
void exponentials<float>(const float* x, float* y, int64_t n, float* maximum, float* sum) {
  constexpr int vectors = lanes / Wide::lanes;
  const auto rest = [](int64_t left, int v) {
    return static_cast<int>(left < v * Wide::lanes ? 0 : left < (v + 1) * Wide::lanes ? left - v * Wide::lanes : Wide::lanes);
  };
  // A NaN that is passed over here comes again: each element gives its own e^(x − max).
  Wide most[vectors] = {x[0], x[0], x[0], x[0]};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int v = 0; v < vectors; ++v) most[v] = math::larger(Wide::load(x + i + v * Wide::lanes), most[v]);
  for (int v = 0; v < vectors && rest(n - i, v) > 0; ++v)
    most[v] = _mm512_mask_max_ps(most[v].v, Wide::first(rest(n - i, v)), Wide::load(x + i + v * Wide::lanes, rest(n - i, v)).v, most[v].v);
  const float top = _mm512_reduce_max_ps(math::larger(math::larger(most[0], most[1]), math::larger(most[2], most[3])).v);
  Wide part[vectors] = {0, 0, 0, 0};
  for (i = 0; i + lanes <= n; i += lanes)
    for (int v = 0; v < vectors; ++v) {
      const Wide e = math::exp_within(math::larger(-104, Wide::load(x + i + v * Wide::lanes) - top));
      if (y) e.store(y + i + v * Wide::lanes);
      part[v] = part[v] + e;
    }
  for (int v = 0; v < vectors && rest(n - i, v) > 0; ++v) {
    const int count = rest(n - i, v);
    const Wide e = math::exp_within(math::larger(-104, Wide::load(x + i + v * Wide::lanes, count) - top));
    if (y) e.store(y + i + v * Wide::lanes, count);
    part[v] = _mm512_mask_add_ps(part[v].v, Wide::first(count), part[v].v, e.v);
  }
  alignas(64) float parts[lanes];
  for (int v = 0; v < vectors; ++v) part[v].store(parts + v * Wide::lanes);
  *maximum = top;
  *sum = folded<float, Sum>(parts);
}
#endif

template <class T>
void softmax_of_columns(const T* x, T* y, int64_t n, int64_t rows, int64_t stride, bool log) {
  T top[lanes], sum[lanes];
  for (int64_t j = 0; j < n; ++j) top[j] = x[j], sum[j] = 0;
  reduce_rows<T, Max>(top, x, n, rows, stride);
  for (int64_t r = 0; r < rows; ++r) {
    const T* const from = x + r * stride;
    T* const to = y + r * stride;
#ifdef TANDEM_WIDE
    if constexpr (sizeof(T) == sizeof(float)) {
      for (int64_t j = 0; j < n; j += Wide::lanes) {
        const int count = static_cast<int>(n - j < Wide::lanes ? n - j : Wide::lanes);
        const Wide e = math::exp_within(math::larger(-104, Wide::load(from + j, count) - Wide::load(top + j, count)));
        e.store(to + j, count);
        (Wide::load(sum + j, count) + e).store(sum + j, count);
      }
      continue;
    }
#endif
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) sum[j] += to[j] = math::exp(from[j] - top[j]);
  }
  for (int64_t j = 0; j < n; ++j) sum[j] = log ? math::log(sum[j]) : 1 / sum[j];
  for (int64_t r = 0; r < rows; ++r) {
    const T* const from = x + r * stride;
    T* const to = y + r * stride;
    if (log) {
#pragma GCC ivdep
      for (int64_t j = 0; j < n; ++j) to[j] = from[j] - top[j] - sum[j];
    } else {
#pragma GCC ivdep
      for (int64_t j = 0; j < n; ++j) to[j] *= sum[j];
    }
  }
}

}  // namespace

template <class T>
const Reductions<T>& reductions() {
  static constexpr Reductions<T> all = {
      {reduce_row<T, Sum>, reduce_row<T, Max>, reduce_row<T, Min>, reduce_row<T, Prod>},
      {reduce_rows<T, Sum>, reduce_rows<T, Max>, reduce_rows<T, Min>, reduce_rows<T, Prod>},
      {reduce_each<T, Sum>, reduce_each<T, Max>, reduce_each<T, Min>, reduce_each<T, Prod>},
      exponentials<T>,
      softmax_of_columns<T>,
      scale<T>,
      shift<T>,
  };
  return all;
}
template const Reductions<float>& reductions<float>();
template const Reductions<double>& reductions<double>();

}  // namespace tandem::vector::TANDEM_ISA
