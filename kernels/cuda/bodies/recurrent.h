// One step of an LSTM, GRU or RNN, forward or back: a product by R and, of its sums, the cell. A block has a tile of samples by
// units with the sums of all gates of these, so that what the product gives never goes through memory. In float32.
#pragma once
#include "kernels/cuda/bodies/tile_product.h"

#if !defined(__CUDACC__)
#include <math.h>
#endif

namespace tandem::cuda {

// What a step multiplies: Σ a[b,k]·w[j,k] over k < inner, of each direction. Rows of w are a gate's units, gate by gate.
struct StepProduct {
  const float *a[2], *w[2];
  std::int64_t a_row, w_row;
  std::int32_t inner;  // 0 where there is nothing before: the sums are 0
  bool wide;           // rows begin at multiples of 16 bytes, and inner is one of 4
};

// How a block's eight warps share its tile: 16 samples by 8·octets units each, all gates; where that leaves warps over, they share
// the sums' terms.
template <int gates, int octets, int row_warps, int unit_warps>
struct StepTile {
  static constexpr int threads = 256, warps = threads / 32, gate_count = gates;
  static constexpr int k_warps = warps / (row_warps * unit_warps), depth = k_warps == warps ? 16 : 32;  // terms of a warp at a time
  static constexpr int rows = 16 * row_warps, units = 8 * octets * unit_warps, tiles = gates * octets;
  static constexpr int inner = depth * k_warps, stride = inner + row_padding<float>;
  static constexpr int packs = (rows + gates * units) * inner / 4, packs_of_thread = (packs + threads - 1) / threads;
  static_assert(k_warps == 1 || k_warps * gates * rows * units <= (rows + gates * units) * stride,
                "the parts of sums lie where the operands lay");

  // f(sample, unit, sums): of the tile whose first these are, a thread's part of the samples below B and the units below H. One function:
  // what is fetched for the next terms and the sums stay in registers.
  template <class Thread, class F>
  TANDEM_DEVICE static void each(const Thread& t, const StepProduct& p, int direction, int first_row, int first_unit, int B, int H, F&& f) {
    float* const memory = t.template shared<float, (rows + gates * units) * stride, 0>();
    const int warp = t.thread() / 32, row_warp = warp % row_warps, unit_warp = warp / row_warps % unit_warps,
              k_warp = warp / (row_warps * unit_warps);
    const int first_of_row = t.thread() % (inner / 4) * 4;  // threads is a multiple of inner / 4: the same in all packs of a thread
    const float* from[packs_of_thread];
    TANDEM_UNROLL(unroll)
    for (int i = 0; i < packs_of_thread; ++i) {
      const int row = (i * threads + t.thread()) / (inner / 4), j = row - rows;
      const int unit = first_unit + (j / (8 * tiles) * octets + j / 8 % octets) * 8 + j % 8, gate = j / 8 % tiles / octets;
      if (j < 0)
        from[i] = first_row + row < B ? p.a[direction] + (first_row + row) * p.a_row : nullptr;
      else
        from[i] = i * threads + t.thread() < packs && unit < H ? p.w[direction] + (static_cast<std::int64_t>(gate) * H + unit) * p.w_row
                                                               : nullptr;
    }
    Pack<float, 4> next[packs_of_thread];
    const auto fetch = [&](int k) {
      TANDEM_UNROLL(unroll)
      for (int i = 0; i < packs_of_thread; ++i) {
        next[i] = {};
        if (!from[i]) continue;
        if (p.wide) {
          if (k < p.inner) next[i] = read_at<4>(from[i], k);
        } else {
          TANDEM_UNROLL(unroll)
          for (int e = 0; e < 4; ++e)
            if (k + e < p.inner) next[i].v[e] = from[i][k + e];
        }
      }
    };
    float c[tiles][4] = {};
    if (p.inner > 0) fetch(first_of_row);
    for (int k = 0; k < p.inner; k += inner) {
      TANDEM_UNROLL(unroll)
      for (int i = 0; i < packs_of_thread; ++i) {
        const int pack = i * threads + t.thread();
        if (pack < packs) write_at(memory, pack / (inner / 4) * stride + first_of_row, next[i]);
      }
      t.sync();
      if (k + inner < p.inner) fetch(k + inner + first_of_row);
      multiply_rows<float, tiles, depth>(t, c, memory + row_warp * 16 * stride + k_warp * depth, stride,
                                         memory + (rows + unit_warp * 8 * tiles) * stride + k_warp * depth, stride);
      t.sync();
    }
    const WarpLane lane(t);
    const auto finish = [&](int row, int unit, const float (&sums)[gates]) {
      if (first_row + row < B && first_unit + unit < H) f(first_row + row, first_unit + unit, sums);
    };
    TANDEM_UNROLL(unroll)
    for (int o = 0; o < octets; ++o)
      TANDEM_UNROLL(unroll)
      for (int i = 0; i < 4; ++i) {
        const int row = row_warp * 16 + lane.row + i / 2 * 8, unit = (unit_warp * octets + o) * 8 + lane.column + i % 2;
        float sums[gates];
        for (int g = 0; g < gates; ++g) sums[g] = c[g * octets + o][i];
        if constexpr (k_warps == 1)
          finish(row, unit, sums);
        else
          for (int g = 0; g < gates; ++g) memory[((k_warp * gates + g) * rows + row) * units + unit] = sums[g];
      }
    if constexpr (k_warps > 1) {
      t.sync();
      for (int i = t.thread(); i < rows * units; i += threads) {
        float sums[gates] = {};
        for (int w = 0; w < k_warps; ++w)
          for (int g = 0; g < gates; ++g) sums[g] += memory[(w * gates + g) * rows * units + i];
        finish(i / units, i % units, sums);
      }
    }
  }
};

// For few samples and units, which take many blocks to fill a device, for more, and for many, where what is read again counts.
template <int gates>
using SmallStep = StepTile<gates, 1, 1, 1>;
template <int gates>
using MediumStep = StepTile<gates, 1, 2, 2>;
template <int gates>
using LargeStep = StepTile<gates, gates >= 3 ? 1 : 4 / gates, 4, 2>;

// What a step's kernels have in common. Rows of h, c, y and their gradients are H long.
struct StepPlace {
  StepProduct product;
  std::int32_t B, H, row_tiles, unit_tiles;
  std::int32_t time[2];         // of each direction
  const std::int32_t* lengths;  // null: all samples have all steps
  std::int64_t saved_row;

  TANDEM_DEVICE bool is_past(int direction, int sample) const { return lengths && time[direction] >= lengths[sample]; }
  // Calls f(direction, sample, unit, sums).
  template <class Tile, class Thread, class F>
  TANDEM_DEVICE void each(const Thread& t, F&& f) const {
    const auto block = static_cast<int>(t.block());
    const int direction = block / unit_tiles / row_tiles;
    Tile::each(t, product, direction, block / unit_tiles % row_tiles * Tile::rows, block % unit_tiles * Tile::units, B, H,
               [&](int sample, int unit, const float (&sums)[Tile::gate_count]) { f(direction, sample, unit, sums); });
  }
};

TANDEM_DEVICE float logistic(float x) { return 1 / (1 + expf(-x)); }
TANDEM_DEVICE float one_of(const float* values, std::int64_t i) { return values ? values[i] : 0; }

// A GRU without linear_before_reset takes two: the gates z and r and what r lets through, and the rest.
enum class StepForward { lstm, gru_gates, gru, gru_linear, rnn };

template <StepForward form, class Tile>
struct RecurrentBody {
  static constexpr int threads = Tile::threads;
  static constexpr bool cooperative = true;
  StepPlace place;
  const float *products[2], *h[2], *c[2], *bias[2];  // h, c: null: zeros
  float *h_next[2], *c_next[2], *y[2], *saved[2];    // saved: null: not wanted
  std::int64_t products_row;
  bool relu;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    place.each<Tile>(t, [&](int d, int b, int u, const float (&sums)[Tile::gate_count]) {
      const std::int64_t H = place.H, at = b * H + u;
      const float* const p = products[d] + b * products_row + u;
      float* const keep = saved[d] ? saved[d] + b * place.saved_row + u : nullptr;
      const auto save = [&](int first, const auto&... values) {
        int slot = first;
        if (keep) ((keep[slot++ * H] = values), ...);
      };
      const bool past = place.is_past(d, b);
      const float before = one_of(h[d], at);
      float now = before;
      if constexpr (form == StepForward::lstm) {
        const float c_before = one_of(c[d], at);
        float c_now = c_before;
        if (past) {
          save(0, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F);
        } else {
          const float i = logistic(p[0] + sums[0]), o = logistic(p[H] + sums[1]), f = logistic(p[2 * H] + sums[2]),
                      g = tanhf(p[3 * H] + sums[3]);
          c_now = f * c_before + i * g;
          now = o * tanhf(c_now);
          save(0, i, o, f, g, c_before, before);
        }
        c_next[d][at] = c_now;
      }
      if constexpr (form == StepForward::gru_gates) {
        const float z = past ? 0 : logistic(p[0] + sums[0]), r = past ? 0 : logistic(p[H] + sums[1]);
        save(0, z, r);
        save(3, r * before);
        return;
      }
      if constexpr (form == StepForward::gru) {
        const float g = past ? 0 : tanhf(p[2 * H] + sums[0]);
        if (!past) now = (1 - keep[0]) * g + keep[0] * before;
        save(2, g);
        save(4, past ? 0.0F : before);
      }
      if constexpr (form == StepForward::gru_linear) {
        if (past) {
          save(0, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F);
        } else {
          const float z = logistic(p[0] + sums[0]), r = logistic(p[H] + sums[1]), inner = sums[2] + one_of(bias[d], u),
                      g = tanhf(p[2 * H] + r * inner);
          now = (1 - z) * g + z * before;
          save(0, z, r, g, inner, before);
        }
      }
      if constexpr (form == StepForward::rnn) {
        const float a = p[0] + sums[0];
        if (!past) now = relu ? (a < 0 ? 0 : a) : tanhf(a);
        save(0, past ? 0.0F : now, past ? 0.0F : before);
      }
      h_next[d][at] = now;
      y[d][at] = past ? 0 : now;
    });
  }
};

// The sums are what the step after it gives the state by R. A GRU without linear_before_reset takes two: all but r, and r of the
// sums by Rh. Behind the first step only the state's gradient is left.
enum class StepBack { lstm, gru, gru_reset, gru_linear, rnn, state };

template <StepBack form, class Tile>
struct RecurrentGradientBody {
  static constexpr int threads = Tile::threads;
  static constexpr bool cooperative = true;
  StepPlace place;
  const float *saved[2], *dy[2], *dh[2], *dc[2];  // dy, dh, dc: null: zeros
  float *dh_next[2], *dc_next[2];
  float *gates[2], *inner[2];  // inner: what R gets of a GRU with linear_before_reset, in place of `gates`
  std::int64_t gates_row;
  bool relu;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    place.each<Tile>(t, [&](int d, int b, int u, const float (&sums)[Tile::gate_count]) {
      const std::int64_t H = place.H, at = b * H + u;
      const float sum = sums[0];
      if constexpr (form == StepBack::state) {
        dh_next[d][at] = one_of(dh[d], at) + sum;
        return;
      }
      const float* const s = saved[d] + b * place.saved_row + u;
      float* const to = gates[d] + b * gates_row + u;
      const bool past = place.is_past(d, b);  // what was saved is 0, and the states pass by
      if constexpr (form == StepBack::gru_reset) {
        const float r = s[H];
        to[H] = past ? 0 : sum * s[4 * H] * r * (1 - r);
        if (!past) dh_next[d][at] += sum * r;
        return;
      }
      const float whole = one_of(dh[d], at) + sum + (past ? 0 : one_of(dy[d], at));
      float left = past ? whole : 0;  // of the state's gradient, as far as no product gives it
      if constexpr (form == StepBack::lstm) {
        const float i = s[0], o = s[H], f = s[2 * H], g = s[3 * H], before = s[4 * H], dc_whole = one_of(dc[d], at);
        const float bent = tanhf(f * before + i * g), of_c = past ? dc_whole : dc_whole + whole * o * (1 - bent * bent);
        to[0] = past ? 0 : of_c * g * i * (1 - i);
        to[H] = past ? 0 : whole * bent * o * (1 - o);
        to[2 * H] = past ? 0 : of_c * before * f * (1 - f);
        to[3 * H] = past ? 0 : of_c * i * (1 - g * g);
        dc_next[d][at] = past ? dc_whole : of_c * f;
      }
      if constexpr (form == StepBack::gru || form == StepBack::gru_linear) {
        const float z = s[0], g = s[2 * H], dz = past ? 0 : whole * (s[4 * H] - g) * z * (1 - z),
                    dg = past ? 0 : whole * (1 - z) * (1 - g * g);
        to[0] = dz;
        to[2 * H] = dg;
        if (!past) left = whole * z;
        if constexpr (form == StepBack::gru_linear) {
          const float r = s[H], dr = dg * s[3 * H] * r * (1 - r);
          to[H] = dr;
          float* const by_r = inner[d] + b * 3 * H + u;
          by_r[0] = dz;
          by_r[H] = dr;
          by_r[2 * H] = dg * r;
        }
      }
      if constexpr (form == StepBack::rnn) to[0] = past ? 0 : relu ? (s[0] > 0 ? whole : 0) : whole * (1 - s[0] * s[0]);
      dh_next[d][at] = left;
    });
  }
};

// Of each direction c[m,n] = Σ a[k,m]·b[k,n] over the rows of all steps, tiles of 64 × 64; `parts` blocks share a tile's rows, and each
// leaves sums of its own. Without b it is 1.
struct MatrixGradientBody {
  static constexpr int tile = 64, depth = 16, threads = 256;
  static constexpr bool cooperative = true;
  const float *a, *b;
  float* c;
  std::int64_t a_row, b_row, a_direction, b_direction, c_direction, c_part;
  std::int32_t m, n, rows, rows_of_part, parts, m_tiles, n_tiles;
  bool wide;  // rows of a and b begin at multiples of 16 bytes, m and n are multiples of 4

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    constexpr int stride = tile + 4;
    float* const memory = t.template shared<float, 2 * depth * stride, 0>();
    auto rest = static_cast<int>(t.block());
    const int first_n = rest % n_tiles * tile, first_m = rest / n_tiles % m_tiles * tile;
    rest /= n_tiles * m_tiles;
    const int part = rest % parts, direction = rest / parts;
    const int begin = part * rows_of_part, end = begin + rows_of_part < rows ? begin + rows_of_part : rows;
    // what it fetches, and the first column and row/4 of what it sums
    const int column = t.thread() % (tile / 4) * 4, row = t.thread() / (tile / 4);
    const float *const from_a = a + direction * a_direction + first_m + column, *const from_b =
                                                                                    b ? b + direction * b_direction + first_n + column
                                                                                      : nullptr;
    Pack<float, 4> of_a, of_b;
    const auto fetch_one = [&](Pack<float, 4>& to, const float* from, std::int64_t from_row, int k, int left) {
      to = {};
      if (k >= end || left <= 0) return;
      if (!from) {
        to.v[0] = 1;
      } else if (wide) {
        to = read_at<4>(from, k * from_row);
      } else {
        for (int e = 0; e < 4; ++e)
          if (e < left) to.v[e] = from[k * from_row + e];
      }
    };
    const auto fetch = [&](int k) {
      fetch_one(of_a, from_a, a_row, k + row, m - first_m - column);
      fetch_one(of_b, from_b, b_row, k + row, n - first_n - column);
    };
    float sums[4][4] = {};
    if (begin < end) fetch(begin);
    for (int k = begin; k < end; k += depth) {
      write_at(memory, row * stride + column, of_a);
      write_at(memory, (depth + row) * stride + column, of_b);
      t.sync();
      if (k + depth < end) fetch(k + depth);
      TANDEM_UNROLL(unroll)
      for (int i = 0; i < depth; ++i) {
        const Pack<float, 4> left = read_at<4>(memory, i * stride + row * 4), right = read_at<4>(memory, (depth + i) * stride + column);
        TANDEM_UNROLL(unroll)
        for (int x = 0; x < 4; ++x)
          TANDEM_UNROLL(unroll)
          for (int y = 0; y < 4; ++y) sums[x][y] += left.v[x] * right.v[y];
      }
      t.sync();
    }
    float* const to = c + part * c_part + direction * c_direction;
    for (int x = 0; x < 4; ++x)
      for (int y = 0; y < 4; ++y)
        if (const int i = first_m + row * 4 + x, j = first_n + column + y; i < m && j < n)
          to[static_cast<std::int64_t>(i) * n + j] = sums[x][y];
  }
};

// c = Σ of the parts, in order. Each part holds all directions' elements.
struct MatrixPartsBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const float* parts;
  float* c;
  std::int64_t elements, of_direction, c_direction;
  std::int32_t count;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      float sum = 0;
      for (int p = 0; p < count; ++p) sum += parts[p * elements + i];
      c[i / of_direction * c_direction + i % of_direction] = sum;
    }
  }
};

}  // namespace tandem::cuda
