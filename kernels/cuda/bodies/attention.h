// Attention by blocks: scores are kept a tile at a time, in registers and, for the product that reads them, in shared memory. A warp
// has 16 rows. Source: Dao, "FlashAttention-2", 2023. What a score is stands in docs/internal-operators.md.
#pragma once
#include "kernels/cuda/bodies/philox.h"
#include "kernels/cuda/bodies/tile_product.h"

#if !defined(__CUDACC__)
#include <math.h>
#endif

namespace tandem::cuda {

// Where rows of an operand [B,H,S,D] begin; the numbers of a row lie side by side.
struct HeadRows {
  std::int64_t sample, head, row;  // strides
  TANDEM_DEVICE std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t s) const { return b * sample + h * head + s * row; }
};

struct AttentionProblem {
  std::int32_t B, H, S, T, D, V, shared;  // `shared`: query heads of a key head
  float scale, fill, kept;                // kept: what is not dropped is multiplied by it
  std::int32_t offset, guarded;
  std::uint32_t threshold, layer;
  std::int32_t inner;                     // rows of B that are one sample
  std::int32_t heads, head;               // of a part of the heads: all there are, and its first; random numbers are counted by them
  bool causal, wide_d, wide_v;            // wide: rows of D (V) elements are read 16 bytes at a time
  std::int64_t mask_sample, mask_head, mask_row;
  const std::uint8_t* keep;               // one of these or none
  const float* bias;
  const std::int64_t* random;             // or null

  TANDEM_DEVICE std::int32_t key_heads() const { return H / shared; }
  // Keys that a query reaches.
  TANDEM_DEVICE std::int32_t reach(std::int32_t query) const { return causal && query + offset + 1 < T ? query + offset + 1 : T; }
};

// Scores of one head in one sample.
struct HeadScores {
  const AttentionProblem& p;
  std::int64_t mask, first;     // of query 0 and key 0: in the mask, and its number among random ones
  std::uint32_t step[2], key[2];

  TANDEM_DEVICE HeadScores(const AttentionProblem& problem, std::int64_t b, std::int64_t h)
      : p(problem), mask(b * p.mask_sample + h * p.mask_head), first(0), step{}, key{} {
    if (!p.random) return;
    first = ((p.random[2] * p.inner + b) * p.heads + p.head + h) * p.S * p.T;
    const auto seed = static_cast<std::uint64_t>(p.random[0]), number = static_cast<std::uint64_t>(p.random[1]);
    step[0] = static_cast<std::uint32_t>(number);
    step[1] = static_cast<std::uint32_t>(number >> 32);
    key[0] = static_cast<std::uint32_t>(seed);
    key[1] = static_cast<std::uint32_t>(seed >> 32) ^ p.layer;
  }
  TANDEM_DEVICE bool visible(std::int32_t i, std::int32_t j) const { return i < p.S && j < p.reach(i); }
  TANDEM_DEVICE bool hidden(std::int32_t i, std::int32_t j) const { return p.keep && p.keep[mask + i * p.mask_row + j] == 0; }
  // What the softmax is of; `product` is q·k.
  TANDEM_DEVICE float score(float product, std::int32_t i, std::int32_t j) const {
    if (!visible(i, j)) return -INFINITY;
    if (hidden(i, j)) return p.fill;
    return p.bias ? product * p.scale + p.bias[mask + i * p.mask_row + j] : product * p.scale;
  }
  // What a probability is multiplied by: 0 where it is dropped.
  TANDEM_DEVICE float factor(std::int32_t i, std::int32_t j) const {
    if (!p.random) return 1;
    return drawn(static_cast<std::uint64_t>(first + static_cast<std::int64_t>(i) * p.T + j));
  }
  // A call, as loops over scores are written out.
  TANDEM_DEVICE_CALL float drawn(std::uint64_t number) const {
    const std::uint64_t group = number / 4;
    Philox words{{static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32), step[0], step[1]}, {key[0], key[1]}};
    words.run();
    return words.word(static_cast<int>(number % 4)) >= p.threshold ? p.kept : 0.0F;
  }
};

// Rows [first, first + rows) of `n`, of `width` elements, to shared memory; zeros behind both.
template <class T, int rows, int columns, int threads, class Thread>
TANDEM_DEVICE void load_tile(const Thread& t, T* to, const T* from, std::int64_t stride, std::int32_t first, std::int32_t n,
                             std::int32_t width, bool wide) {
  constexpr int pack = full_pack<T>, packs = columns / pack, length = columns + row_padding<T>;
  for (int i = t.thread(); i < rows * packs; i += threads) {
    const int row = i / packs, column = i % packs * pack;
    Pack<T, pack> values{};
    if (first + row < n) {
      const T* const at = from + (first + row) * stride + column;
      if (wide) {
        if (column < width) values = *as_aligned<const Pack<T, pack>>(at);
      } else {
        for (int k = 0; k < pack; ++k)
          if (column + k < width) values.v[k] = at[k];
      }
    }
    *as_aligned<Pack<T, pack>>(to + row * length + column) = values;
  }
}

// y = dropped(softmax(s))·v and log_sum. D and V are at most `width`; a block has rows/16 warps and as many queries as rows.
template <class T, int width, int rows, int keys>
struct AttentionBody {
  static constexpr int threads = rows * 2;
  static constexpr bool cooperative = true;
  AttentionProblem p;
  const T *q, *k, *v;
  T* y;
  float* log_sum;  // may be null
  float* correction;  // of e^(s − log_sum); may be null
  HeadRows q_at, k_at, v_at, y_at;

  // One function: sums, scores and maxima stay in registers from the first key to the last.
  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    constexpr int length = width + row_padding<T>, score_length = keys + row_padding<T>, score_tiles = keys / 8, tiles = width / 8;
    T* const queries = t.template shared<T, rows * length, 0>();
    T* const key_tile = t.template shared<T, keys * length, 1>();
    T* const value_tile = t.template shared<T, keys * length, 2>();
    T* const shares = t.template shared<T, rows * score_length, 3>() + t.thread() / 32 * 16 * score_length;  // of this warp
    const std::int32_t blocks = (p.S + rows - 1) / rows, first = static_cast<std::int32_t>(t.block() % blocks) * rows;
    const auto head = static_cast<std::int32_t>(t.block() / blocks), b = head / p.H, h = head % p.H, key_head = h / p.shared;
    const WarpLane lane(t);
    const std::int32_t row = first + t.thread() / 32 * 16 + lane.row;
    const HeadScores scores(p, b, h);
    load_tile<T, rows, width, threads>(t, queries, q + q_at.at(b, h, 0), q_at.row, first, p.S, p.D, p.wide_d);
    const T* const own_queries = queries + t.thread() / 32 * 16 * length;
    float sums[tiles][4] = {}, most[2] = {-INFINITY, -INFINITY}, total[2] = {};
    const std::int32_t last = first + rows < p.S ? first + rows - 1 : p.S - 1, end = p.reach(last);
    for (std::int32_t j = 0; j < end; j += keys) {
      t.sync();
      load_tile<T, keys, width, threads>(t, key_tile, k + k_at.at(b, key_head, 0), k_at.row, j, p.T, p.D, p.wide_d);
      load_tile<T, keys, width, threads>(t, value_tile, v + v_at.at(b, key_head, 0), v_at.row, j, p.T, p.V, p.wide_v);
      t.sync();
      float s[score_tiles][4] = {};
      multiply_rows<T, score_tiles, width>(t, s, own_queries, length, key_tile, length);
      TANDEM_UNROLL(unroll)
      for (int half = 0; half < 2; ++half) {
        float top = most[half];
        TANDEM_UNROLL(unroll)
        for (int n = 0; n < score_tiles; ++n)
          TANDEM_UNROLL(unroll)
          for (int i = 0; i < 2; ++i) {
            float& score = s[n][2 * half + i];
            score = scores.score(score, row + 8 * half, j + 8 * n + lane.column + i);
            top = score > top ? score : top;
          }
        for (int mask = 1; mask < 4; mask *= 2) {
          const float other = t.shuffle_xor(top, mask);
          top = other > top ? other : top;
        }
        const float base = top == -INFINITY ? 0.0F : top, before = most[half] == top ? 1.0F : exp(most[half] - base);
        float sum = 0;
        TANDEM_UNROLL(unroll)
        for (int n = 0; n < score_tiles; ++n)
          TANDEM_UNROLL(unroll)
          for (int i = 0; i < 2; ++i) {
            float& score = s[n][2 * half + i];
            score = exp(score - base);
            sum += score;
            if (p.random) score *= scores.factor(row + 8 * half, j + 8 * n + lane.column + i);
            shares[(lane.row + 8 * half) * score_length + 8 * n + lane.column + i] = store<T>(score);
          }
        for (int mask = 1; mask < 4; mask *= 2) sum += t.shuffle_xor(sum, mask);
        total[half] = total[half] * before + sum;
        most[half] = top;
        TANDEM_UNROLL(unroll)
        for (int n = 0; n < tiles; ++n)
          TANDEM_UNROLL(unroll)
          for (int i = 0; i < 2; ++i) sums[n][2 * half + i] *= before;
      }
      t.sync_warp();
      multiply_columns<T, tiles, keys>(t, sums, shares, score_length, value_tile, length);
    }
    TANDEM_UNROLL(unroll)
    for (int half = 0; half < 2; ++half) {
      const std::int32_t i = row + 8 * half;
      if (i >= p.S) continue;
      const bool zeros = (p.guarded > 0 && total[half] == 0) || (p.guarded > 1 && total[half] != total[half]);
      const float inverse = 1.0F / total[half];
      T* const to = y + y_at.at(b, h, i);
      TANDEM_UNROLL(unroll)
      for (int n = 0; n < tiles; ++n)
        TANDEM_UNROLL(unroll)
        for (int e = 0; e < 2; ++e)
          if (8 * n + lane.column + e < p.V) to[8 * n + lane.column + e] = store<T>(zeros ? 0.0F : sums[n][2 * half + e] * inverse);
      if (!log_sum || lane.column != 0) continue;
      const std::int64_t at = (static_cast<std::int64_t>(b) * p.H + h) * p.S + i;
      const float logarithm = most[half] + log(total[half]);
      log_sum[at] = zeros ? INFINITY : total[half] == 0 ? NAN : logarithm;
      if (correction) correction[at] = zeros || total[half] == 0 ? 1.0F : exp(logarithm - most[half]) * inverse;
    }
  }
};

// delta = Σ dy·y of each query: a warp a row.
template <class T>
struct AttentionDeltaBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = true;
  AttentionProblem p;
  const T *y, *dy;
  float* delta;
  HeadRows y_at, dy_at;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t row = t.block() * (threads / 32) + t.thread() / 32;
    if (row >= static_cast<std::int64_t>(p.B) * p.H * p.S) return;
    const std::int64_t i = row % p.S, h = row / p.S % p.H, b = row / p.S / p.H;
    const T *const a = y + y_at.at(b, h, i), *const other = dy + dy_at.at(b, h, i);
    float sum = 0;
    for (std::int32_t c = t.thread() % 32; c < p.V; c += 32) sum += load(a[c]) * load(other[c]);
    for (int mask = 16; mask > 0; mask /= 2) sum += t.shuffle_xor(sum, mask);
    if (t.thread() % 32 == 0) delta[row] = sum;
  }
};

// Gradients of queries, or of keys and values. Rows of a block are queries (keys), columns of its tiles keys (queries); both recompute
// p = e^(s − log_sum). With p' dropped: ds = p · (dropped(dy·vᵀ) − delta) · scale, dq = ds·k; dk = dsᵀ·q, dv = p'ᵀ·dy.
template <class T, int width, int rows, int columns, bool of_keys>
struct AttentionGradientBody {
  static constexpr int threads = rows * 2;
  static constexpr bool cooperative = true;
  AttentionProblem p;
  const T *q, *k, *v, *dy;
  const float *log_sum, *delta;
  T *first_gradient, *second_gradient;  // dq and null, or dk and dv
  HeadRows q_at, k_at, v_at, dy_at, first_at, second_at;

  // One function: both sums stay in registers from the first tile to the last.
  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    constexpr int length = width + row_padding<T>, score_length = columns + row_padding<T>, score_tiles = columns / 8, tiles = width / 8;
    T* const rows_a = t.template shared<T, rows * length, 0>();  // queries or keys
    T* const rows_b = t.template shared<T, rows * length, 1>();  // dy or values
    T* const columns_a = t.template shared<T, columns * length, 2>();
    T* const columns_b = t.template shared<T, columns * length, 3>();
    const int warp_row = t.thread() / 32 * 16;
    T* const scratch = t.template shared<T, rows * score_length, 4>() + warp_row * score_length;
    const std::int32_t n_rows = of_keys ? p.T : p.S, n_columns = of_keys ? p.S : p.T, heads = of_keys ? p.key_heads() : p.H;
    const std::int32_t blocks = (n_rows + rows - 1) / rows, first = static_cast<std::int32_t>(t.block() % blocks) * rows;
    const auto head = static_cast<std::int32_t>(t.block() / blocks), b = head / heads, own_head = head % heads,
               key_head = of_keys ? own_head : own_head / p.shared;
    const WarpLane lane(t);
    const std::int32_t row = first + warp_row + lane.row;
    const auto load_queries = [&](T* to_q, T* to_dy, std::int32_t h, std::int32_t at, auto count) {
      load_tile<T, count(), width, threads>(t, to_q, q + q_at.at(b, h, 0), q_at.row, at, p.S, p.D, p.wide_d);
      load_tile<T, count(), width, threads>(t, to_dy, dy + dy_at.at(b, h, 0), dy_at.row, at, p.S, p.V, p.wide_v);
    };
    const auto load_keys = [&](T* to_k, T* to_v, std::int32_t at, auto count) {
      load_tile<T, count(), width, threads>(t, to_k, k + k_at.at(b, key_head, 0), k_at.row, at, p.T, p.D, p.wide_d);
      load_tile<T, count(), width, threads>(t, to_v, v + v_at.at(b, key_head, 0), v_at.row, at, p.T, p.V, p.wide_v);
    };
    constexpr std::integral_constant<int, rows> all_rows;
    constexpr std::integral_constant<int, columns> all_columns;
    if constexpr (of_keys)
      load_keys(rows_a, rows_b, first, all_rows);
    else
      load_queries(rows_a, rows_b, own_head, first, all_rows);
    float a[tiles][4] = {}, c[of_keys ? tiles : 1][4] = {};
    for (std::int32_t h = of_keys ? key_head * p.shared : own_head, h_end = of_keys ? h + p.shared : h + 1; h < h_end; ++h) {
      const HeadScores scores(p, b, h);
      const std::int64_t queries_at = (static_cast<std::int64_t>(b) * p.H + h) * p.S;
      const std::int32_t last = first + rows < n_rows ? first + rows - 1 : n_rows - 1, end = of_keys ? n_columns : p.reach(last);
      for (std::int32_t column = 0; column < end; column += columns) {
        if (of_keys && p.reach(column + columns < p.S ? column + columns - 1 : p.S - 1) <= first) continue;  // none of them sees these keys
        t.sync();
        if constexpr (of_keys)
          load_queries(columns_a, columns_b, h, column, all_columns);
        else
          load_keys(columns_a, columns_b, column, all_columns);
        t.sync();
        float s[score_tiles][4] = {}, d[score_tiles][4] = {};
        multiply_rows<T, score_tiles, width>(t, s, rows_a + warp_row * length, length, columns_a, length);
        multiply_rows<T, score_tiles, width>(t, d, rows_b + warp_row * length, length, columns_b, length);
        TANDEM_UNROLL(unroll)
        for (int n = 0; n < score_tiles; ++n)
          TANDEM_UNROLL(unroll)
          for (int e = 0; e < 4; ++e) {
            const std::int32_t r = row + e / 2 * 8, other = column + 8 * n + lane.column + e % 2, i = of_keys ? other : r,
                               j = of_keys ? r : other;
            const float sum = i < p.S ? log_sum[queries_at + i] : INFINITY;
            if (sum == INFINITY || j >= p.T) {  // a row of zeros, or none
              s[n][e] = d[n][e] = 0;
              continue;
            }
            const float share = exp(scores.score(s[n][e], i, j) - sum), factor = scores.factor(i, j);
            const bool moves = scores.visible(i, j) && !scores.hidden(i, j);
            d[n][e] = moves ? share * (d[n][e] * factor - delta[queries_at + i]) * p.scale : 0.0F;
            s[n][e] = share * factor;
          }
        const auto put = [&](const float(&from)[score_tiles][4]) {
          t.sync_warp();
          TANDEM_UNROLL(unroll)
          for (int n = 0; n < score_tiles; ++n)
            TANDEM_UNROLL(unroll)
            for (int e = 0; e < 4; ++e) scratch[(lane.row + e / 2 * 8) * score_length + 8 * n + lane.column + e % 2] = store<T>(from[n][e]);
          t.sync_warp();
        };
        put(d);
        multiply_columns<T, tiles, columns>(t, a, scratch, score_length, columns_a, length);
        if constexpr (of_keys) {
          put(s);
          multiply_columns<T, tiles, columns>(t, c, scratch, score_length, columns_b, length);
        }
      }
    }
    TANDEM_UNROLL(unroll)
    for (int e = 0; e < 4; ++e) {
      const std::int32_t r = row + e / 2 * 8;
      if (r >= n_rows) continue;
      TANDEM_UNROLL(unroll)
      for (int n = 0; n < tiles; ++n) {
        const int column = 8 * n + lane.column + e % 2;
        if (column < p.D) first_gradient[first_at.at(b, own_head, r) + column] = store<T>(a[n][e]);
        if constexpr (of_keys)
          if (column < p.V) second_gradient[second_at.at(b, own_head, r) + column] = store<T>(c[n][e]);
      }
    }
  }
};

}  // namespace tandem::cuda
