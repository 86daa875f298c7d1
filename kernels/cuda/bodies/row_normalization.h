// Normalization of rows and its gradient. `lanes` threads share a row, in packs of `width` elements; the first `kept` of each thread
// stay in its registers, and what a longer row has beyond them is read again.
#pragma once
#include "kernels/cuda/bodies/pack.h"

namespace tandem::cuda {

// A warp has room for rows of 1024 numbers, in float32 and in 16 bits: it waits for no other, and has more under way than a block.
template <class T, int lanes>
inline constexpr int kept_packs = lanes == 32 && sizeof(T) == 4 ? 8 : 4;

template <int lanes>
inline constexpr int row_threads = lanes < 128 ? 128 : lanes;

// y = (s − mean)·r·scale + bias by rows of s = x + addend, r = 1/√(mean((s − mean)²) + epsilon); with `rms` the mean is 0. The
// addend is held as A, y as Y: beside float32 x they may be of 16 bits.
template <class T, int width, int lanes, class A = T, class Y = T>
struct RowNormalizationBody {
  static constexpr int threads = row_threads<lanes>, kept_of_each = kept_packs<T, lanes>;
  static constexpr bool cooperative = true;
  using C = Compute<T>;
  const T* x;
  const A* addend;         // may be null
  Y* y;
  T* sum;                  // there with an addend
  const C *scale, *bias;   // may be null
  C *mean, *inverse_deviation;
  std::int64_t rows;
  std::int32_t packs;      // of a row
  double epsilon;
  bool rms;

  TANDEM_DEVICE Pack<T, width> first_read(std::int64_t at) const {
    Pack<T, width> pack = read_pack<width>(x, at);
    if (!addend) return pack;
    const Pack<A, width> other = read_pack<width>(addend, at);
    for (int i = 0; i < width; ++i) pack.v[i] = store<T>(load(pack.v[i]) + load(other.v[i]));
    write_pack(sum, at, pack);
    return pack;
  }
  static TANDEM_DEVICE C total_of(const Pack<T, width>& pack) {
    C total = 0;
    for (int i = 0; i < width; ++i) total += load(pack.v[i]);
    return total;
  }
  static TANDEM_DEVICE C squares_of(const Pack<T, width>& pack, C m) {
    C total = 0;
    for (int i = 0; i < width; ++i) total += (load(pack.v[i]) - m) * (load(pack.v[i]) - m);
    return total;
  }
  TANDEM_DEVICE void finish(std::int64_t at, std::int32_t column, const Pack<T, width>& pack, C m, C r) const {
    Pack<Y, width> result;
    Pack<C, width> factor{}, shift{};
    if (scale) factor = read_pack<width>(scale, column);
    if (bias) shift = read_pack<width>(bias, column);
    for (int i = 0; i < width; ++i) {
      C v = (load(pack.v[i]) - m) * r;
      if (scale) v *= factor.v[i];
      if (bias) v += shift.v[i];
      result.v[i] = store<Y>(v);
    }
    write_pack(y, at, result);
  }

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const auto add = [](C a, C b) { return a + b; };
    const int lane = t.thread() % lanes;
    const std::int64_t row = t.block() * (threads / lanes) + t.thread() / lanes;
    if (row >= rows) return;  // all lanes of it
    const std::int64_t begin = row * packs;
    const T* const again = addend ? sum : x;
    const C n = static_cast<C>(packs) * width;
    constexpr int reach = kept_of_each * lanes;
    Pack<T, width> kept[kept_of_each];
    C m = 0, squares = 0;
    for (int k = 0; k < kept_of_each; ++k)
      if (lane + k * lanes < packs) {
        kept[k] = first_read(begin + lane + k * lanes);
        m += total_of(kept[k]);
      }
    for (std::int32_t p = lane + reach; p < packs; p += lanes) m += total_of(first_read(begin + p));
    m = rms ? C(0) : combine_block<lanes, 0>(t, m, add) / n;
    for (int k = 0; k < kept_of_each; ++k)
      if (lane + k * lanes < packs) squares += squares_of(kept[k], m);
    for (std::int32_t p = lane + reach; p < packs; p += lanes) squares += squares_of(read_pack<width>(again, begin + p), m);
    const C r = C(1) / sqrt(combine_block<lanes, 1>(t, squares, add) / n + static_cast<C>(epsilon));
    for (int k = 0; k < kept_of_each; ++k)
      if (lane + k * lanes < packs) finish(begin + lane + k * lanes, lane + k * lanes, kept[k], m, r);
    for (std::int32_t p = lane + reach; p < packs; p += lanes) finish(begin + p, p, read_pack<width>(again, begin + p), m, r);
    if (lane != 0) return;
    mean[row] = m;
    inverse_deviation[row] = r;
  }
};

// dx = r·(g − Σg/n − x̂·Σ(g·x̂)/n) + dsum, g = dy·scale, x̂ = (x − mean)·r; with `rms` without Σg.
// partial[block][0] = Σ dy·x̂ and partial[block][1] = Σ dy of the block's rows, of those columns whose packs are kept. dy is held
// as D, which beside float32 x may be of 16 bits; or as the sum of float32 and `more`, an M of 16 bits.
template <class T, int width, int lanes, class D = T, class M = D>
struct RowGradientBody {
  static constexpr int threads = row_threads<lanes>, kept_of_each = kept_packs<T, lanes>;
  static constexpr bool cooperative = true;
  using C = Compute<T>;
  const D* dy;
  const T *x, *dsum;  // the latter may be null
  T* dx;
  const C *scale, *mean, *inverse_deviation;  // scale may be null
  C* partial;                                 // may be null
  std::int64_t rows;
  std::int32_t packs;
  bool rms;
  const M* more = nullptr;

  TANDEM_DEVICE Pack<D, width> gradient_at(std::int64_t at) const {
    Pack<D, width> sum = read_pack<width>(dy, at);
    if constexpr (!std::is_same_v<M, D>) {
      const Pack<M, width> other = read_pack<width>(more, at);
      for (int i = 0; i < width; ++i) sum.v[i] = store<D>(load(sum.v[i]) + load(other.v[i]));
    }
    return sum;
  }
  // Of one pack: Σ g and Σ g·x̂.
  TANDEM_DEVICE void sum(const Pack<D, width>& gradient, const Pack<T, width>& value, std::int32_t column, C m, C r, C& whole,
                         C& products) const {
    Pack<C, width> factor{};
    if (scale) factor = read_pack<width>(scale, column);
    for (int i = 0; i < width; ++i) {
      const C g = scale ? load(gradient.v[i]) * factor.v[i] : load(gradient.v[i]);
      whole += g;
      products += g * ((load(value.v[i]) - m) * r);
    }
  }
  TANDEM_DEVICE void finish(std::int64_t at, const Pack<D, width>& gradient, const Pack<T, width>& value, std::int32_t column, C m, C r,
                            C whole, C products) const {
    Pack<C, width> factor{};
    Pack<T, width> other{}, result;
    if (scale) factor = read_pack<width>(scale, column);
    if (dsum) other = read_pack<width>(dsum, at);
    for (int i = 0; i < width; ++i) {
      const C g = scale ? load(gradient.v[i]) * factor.v[i] : load(gradient.v[i]);
      C v = r * (g - whole - (load(value.v[i]) - m) * r * products);
      if (dsum) v += load(other.v[i]);
      result.v[i] = store<T>(v);
    }
    write_pack(dx, at, result);
  }

  // One function: what the columns sum up stays in registers from the first row to the last.
  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const auto add = [](C a, C b) { return a + b; };
    const int lane = t.thread() % lanes, group = t.thread() / lanes;
    constexpr int reach = kept_of_each * lanes, groups = threads / lanes;
    const C share = C(1) / (static_cast<C>(packs) * width);
    C scales[kept_of_each][width] = {}, biases[kept_of_each][width] = {};
    for (std::int64_t row = t.block() * groups + group; row < rows; row += t.blocks() * groups) {
      const std::int64_t begin = row * packs;
      const C m = rms ? C(0) : mean[row], r = inverse_deviation[row];
      Pack<D, width> gradients[kept_of_each];
      Pack<T, width> values[kept_of_each];
      C whole = 0, products = 0;
      for (int k = 0; k < kept_of_each; ++k)
        if (lane + k * lanes < packs) {
          gradients[k] = gradient_at(begin + lane + k * lanes);
          values[k] = read_pack<width>(x, begin + lane + k * lanes);
        }
      for (int k = 0; k < kept_of_each; ++k)
        if (lane + k * lanes < packs) {
          sum(gradients[k], values[k], lane + k * lanes, m, r, whole, products);
          for (int i = 0; i < width; ++i) {
            scales[k][i] += load(gradients[k].v[i]) * ((load(values[k].v[i]) - m) * r);
            biases[k][i] += load(gradients[k].v[i]);
          }
        }
      for (std::int32_t p = lane + reach; p < packs; p += lanes)
        sum(gradient_at(begin + p), read_pack<width>(x, begin + p), p, m, r, whole, products);
      whole = rms ? C(0) : combine_block<lanes, 0>(t, whole, add) * share;
      products = combine_block<lanes, 1>(t, products, add) * share;
      for (int k = 0; k < kept_of_each; ++k)
        if (lane + k * lanes < packs) finish(begin + lane + k * lanes, gradients[k], values[k], lane + k * lanes, m, r, whole, products);
      for (std::int32_t p = lane + reach; p < packs; p += lanes)
        finish(begin + p, gradient_at(begin + p), read_pack<width>(x, begin + p), p, m, r, whole, products);
    }
    if (!partial) return;
    // The block's groups of lanes add up, one after the other, where the first of them writes.
    if constexpr (groups > 1) {
      C* const together = t.template shared<C, 2 * reach * width, 2>();
      for (int turn = groups; turn-- > 0;) {
        if (group == turn)
          for (int k = 0; k < kept_of_each; ++k)
            for (int i = 0; i < width; ++i) {
              C* const at = together + (k * width + i) * lanes + lane;
              if (turn != groups - 1) {
                scales[k][i] += at[0];
                biases[k][i] += at[reach * width];
              }
              at[0] = scales[k][i];
              at[reach * width] = biases[k][i];
            }
        t.sync();
      }
      if (group != 0) return;
    }
    C* const own = partial + t.block() * 2 * packs * width;
    for (int k = 0; k < kept_of_each; ++k)
      if (lane + k * lanes < packs) {
        Pack<C, width> of_scale, of_bias;
        for (int i = 0; i < width; ++i) {
          of_scale.v[i] = scales[k][i];
          of_bias.v[i] = biases[k][i];
        }
        write_pack(own, lane + k * lanes, of_scale);
        write_pack(own, packs + lane + k * lanes, of_bias);
      }
  }
};

// The same partial sums of the columns from `first` on, which were not kept: a thread a column.
template <class T, class D = T, class M = D>
struct RowSumsBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  using C = Compute<T>;
  const D* dy;
  const T* x;
  const C *mean, *inverse_deviation;
  C* partial;
  std::int64_t rows, n, first;
  std::int32_t splits;
  bool rms;
  const M* more = nullptr;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t split = t.block() % splits, c = first + t.block() / splits * threads + t.thread();
    if (c >= n) return;
    C products = 0, whole = 0;
    for (std::int64_t row = split; row < rows; row += splits) {
      C g = load(dy[row * n + c]);
      if constexpr (!std::is_same_v<M, D>) g += load(more[row * n + c]);
      products += g * ((load(x[row * n + c]) - (rms ? C(0) : mean[row])) * inverse_deviation[row]);
      whole += g;
    }
    partial[split * 2 * n + c] = products;
    partial[(split * 2 + 1) * n + c] = whole;
  }
};

}  // namespace tandem::cuda
