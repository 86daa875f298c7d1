// Normalization of rows and its gradient. `lanes` threads share a row, in packs of `width` elements. The first `kept` packs of each
// thread stay in its registers, and what a longer row has beyond them is read again; a warp keeps its row. All loads of what is kept
// come before the first store, since the compiler moves no load across a store that may be of the same memory.
#pragma once
#include "kernels/cuda/bodies/dropout.h"
#include "kernels/cuda/bodies/pack.h"

namespace tandem::cuda {

template <int lanes>
inline constexpr int row_threads = lanes < 128 ? 128 : lanes;

// A pack in registers as it was read, before that zeros. Numbers of 16 bits stay in pairs: taken apart where they are read, they would
// be waited for there.
template <class T, int width>
struct HeldPack {
  static constexpr bool pairs = sizeof(T) == 2 && width > 1;
  using Word = std::conditional_t<pairs, std::uint32_t, T>;
  Pack<Word, pairs ? width / 2 : width> words{};

  TANDEM_DEVICE void read(const T* from, std::int64_t i) {
    words = read_pack < pairs ? width / 2 : width > (reinterpret_cast<const Word*>(from), i);
  }
  TANDEM_DEVICE Compute<T> operator[](int i) const {
    if constexpr (pairs)
      return load(T{static_cast<std::uint16_t>(words.v[i / 2] >> (i % 2 * 16))});
    else
      return load(words.v[i]);
  }
};

// y = (s − mean)·r·scale + bias by rows of s = x + addend, r = 1/√(mean((s − mean)²) + epsilon); with `rms` the mean is 0. The
// addend is held as A, y as Y: beside float32 x they may be of 16 bits. Where the addend alone is, y may be written as A, too. With `drops`
// elements of the addend are dropped before it is added.
template <class T, int width, int lanes, int kept, class A = T, class Y = T, bool drops = false>
struct RowNormalizationBody {
  static constexpr int threads = row_threads<lanes>;
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
  A* copy = nullptr;       // of y; may be null
  std::conditional_t<drops, DropoutRule, NoDropout> rule{};
  using Draws = std::conditional_t<drops, DropoutDraws<false>, NoDropout>;
  static constexpr bool copies = std::is_same_v<Y, T> && !std::is_same_v<A, T>;

  // Gives what is normalized, and writes it where it is a sum.
  TANDEM_DEVICE void take(C (&to)[width], std::int64_t at, const HeldPack<T, width>& value, const HeldPack<A, width>& other,
                          const Draws& draws) const {
    if (!addend) {
      for (int i = 0; i < width; ++i) to[i] = value[i];
      return;
    }
    Pack<T, width> total;
    Compute<A> added[width];
    for (int i = 0; i < width; ++i) added[i] = other[i];
    draws.template drop<A>(added, at * width);
    for (int i = 0; i < width; ++i) {
      total.v[i] = store<T>(value[i] + added[i]);
      to[i] = load(total.v[i]);
    }
    write_pack(sum, at, total);
  }
  TANDEM_DEVICE void first_read(C (&to)[width], std::int64_t at, const Draws& draws) const {
    HeldPack<T, width> value;
    HeldPack<A, width> other;
    value.read(x, at);
    if (addend) other.read(addend, at);
    take(to, at, value, other, draws);
  }
  TANDEM_DEVICE void read_again(C (&to)[width], std::int64_t at) const {
    const Pack<T, width> value = read_pack<width>(addend ? sum : x, at);  // of the type that it was written as
    for (int i = 0; i < width; ++i) to[i] = load(value.v[i]);
  }
  static TANDEM_DEVICE C total_of(const C (&v)[width]) {
    C total = 0;
    for (int i = 0; i < width; ++i) total += v[i];
    return total;
  }
  static TANDEM_DEVICE C squares_of(const C (&v)[width], C m) {
    C total = 0;
    for (int i = 0; i < width; ++i) total += (v[i] - m) * (v[i] - m);
    return total;
  }
  TANDEM_DEVICE Pack<Y, width> result_of(std::int64_t column, const C (&v)[width], C m, C r) const {
    Pack<Y, width> result;
    Pack<C, width> factor{}, shift{};
    if (scale) factor = read_pack<width>(scale, column);
    if (bias) shift = read_pack<width>(bias, column);
    for (int i = 0; i < width; ++i) {
      C u = (v[i] - m) * r;
      if (scale) u *= factor.v[i];
      if (bias) u += shift.v[i];
      result.v[i] = store<Y>(u);
    }
    return result;
  }

  TANDEM_DEVICE void write(std::int64_t at, const Pack<Y, width>& result) const {
    write_pack(y, at, result);
    if constexpr (copies) {
      if (!copy) return;
      Pack<A, width> rounded;
      for (int i = 0; i < width; ++i) rounded.v[i] = store<A>(result.v[i]);
      write_pack(copy, at, rounded);
    }
  }

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const auto add = [](C a, C b) { return a + b; };
    const int lane = t.thread() % lanes;
    const std::int64_t row = t.block() * (threads / lanes) + t.thread() / lanes;
    if (row >= rows) return;  // all lanes of it
    const Draws draws(rule);
    const std::int64_t begin = row * packs;
    const C n = static_cast<C>(packs) * width;
    constexpr int reach = kept * lanes;
    const std::int32_t beyond = lanes > 32 ? packs : 0;
    HeldPack<T, width> values[kept];
    HeldPack<A, width> others[kept];
    C v[kept][width], further[width], m = 0, squares = 0;
    for (int k = 0; k < kept; ++k)
      if (lane + k * lanes < packs) {
        values[k].read(x, begin + lane + k * lanes);
        if (addend) others[k].read(addend, begin + lane + k * lanes);
      }
    for (int k = 0; k < kept; ++k)
      if (lane + k * lanes < packs) {
        take(v[k], begin + lane + k * lanes, values[k], others[k], draws);
        m += total_of(v[k]);
      }
    for (std::int32_t p = lane + reach; p < beyond; p += lanes) {
      first_read(further, begin + p, draws);
      m += total_of(further);
    }
    m = rms ? C(0) : combine_block<lanes, 0>(t, m, add) / n;
    for (int k = 0; k < kept; ++k)
      if (lane + k * lanes < packs) squares += squares_of(v[k], m);
    for (std::int32_t p = lane + reach; p < beyond; p += lanes) {
      read_again(further, begin + p);
      squares += squares_of(further, m);
    }
    const C r = C(1) / sqrt(combine_block<lanes, 1>(t, squares, add) / n + static_cast<C>(epsilon));
    Pack<Y, width> results[kept];
    for (int k = 0; k < kept; ++k)
      if (lane + k * lanes < packs) results[k] = result_of(std::int64_t{lane} + k * lanes, v[k], m, r);
    for (int k = 0; k < kept; ++k)
      if (lane + k * lanes < packs) write(begin + lane + k * lanes, results[k]);
    for (std::int32_t p = lane + reach; p < beyond; p += lanes) {
      read_again(further, begin + p);
      write(begin + p, result_of(p, further, m, r));
    }
    if (lane != 0) return;
    mean[row] = m;
    inverse_deviation[row] = r;
  }
};

// Two sums over the threads of a row, the same on each of them and in every run. `turn` counts the calls. They use two shared arrays by
// turns: an array is read to its end before the barrier of the next call, and so before the call after it writes there.
template <int lanes, class C, class Thread>
TANDEM_DEVICE void add_up(const Thread& t, int turn, C& first, C& second) {
  for (int mask = 16; mask > 0; mask >>= 1) {
    first += t.shuffle_xor(first, mask);
    second += t.shuffle_xor(second, mask);
  }
  if constexpr (lanes > 32) {
    constexpr int warps = lanes / 32;
    C* const part = t.template shared<C, 4 * warps, 0>() + turn % 2 * 2 * warps;
    if (t.thread() % 32 == 0) {
      part[t.thread() / 32] = first;
      part[warps + t.thread() / 32] = second;
    }
    t.sync();
    first = part[0];
    second = part[warps];
    for (int w = 1; w < warps; ++w) {
      first += part[w];
      second += part[warps + w];
    }
  }
}

// dx = r·(g − Σg/n − x̂·Σ(g·x̂)/n) + dsum, g = dy·scale, x̂ = (x − mean)·r; with `rms` without Σg.
// partial[block][0] = Σ dy·x̂ and partial[block][1] = Σ dy of the block's rows, of those columns whose packs are kept. dy is held
// as D, which beside float32 x may be of 16 bits; or as the sum of float32 and `more`, an M of 16 bits.
template <class T, int width, int lanes, int kept, class D = T, class M = D, bool drops = false>
struct RowGradientBody {
  // Warps that take a row each are one block of as many as a multiprocessor's registers hold: 16 of 128 registers a thread, 12 of 168,
  // or 8 of 255. With `early`, dsum is read with the rest; of larger blocks two would then not fit.
  static constexpr int threads = lanes > 32 ? lanes : kept* width <= 16 ? 512 : kept* width <= 24 ? 384 : 256;
  static constexpr int blocks_at_once = lanes == 128 ? 3 : lanes == 256 ? 2 : 1;  // on a multiprocessor
  static constexpr bool early = lanes < 256;
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
  M* copy = nullptr;  // of dx; may be null
  std::conditional_t<drops, DropoutRule, NoDropout> rule{};
  using Draws = std::conditional_t<drops, DropoutDraws<false>, NoDropout>;
  static constexpr bool copies = drops || !std::is_same_v<M, T>;

  struct Read {
    HeldPack<D, width> gradient;
    HeldPack<M, width> more;
    HeldPack<T, width> value, sum;
  };
  TANDEM_DEVICE void read(Read& to, std::int64_t at) const {
    to.gradient.read(dy, at);
    if constexpr (!std::is_same_v<M, D>) to.more.read(more, at);
    to.value.read(x, at);
  }
  static TANDEM_DEVICE C gradient_of(const Read& of, int i) {
    if constexpr (std::is_same_v<M, D>)
      return of.gradient[i];
    else
      return of.gradient[i] + of.more[i];
  }
  // Of one pack: g and x̂.
  struct Terms {
    C g[width], normalized[width];
  };
  TANDEM_DEVICE Pack<C, width> factor_at(std::int64_t column) const { return scale ? read_pack<width>(scale, column) : Pack<C, width>{}; }
  TANDEM_DEVICE Terms terms_of(const Read& of, const Pack<C, width>& factor, C m, C r) const {
    Terms terms;
    for (int i = 0; i < width; ++i) {
      terms.g[i] = scale ? gradient_of(of, i) * factor.v[i] : gradient_of(of, i);
      terms.normalized[i] = (of.value[i] - m) * r;
    }
    return terms;
  }
  static TANDEM_DEVICE void sum(const Terms& terms, C& whole, C& products) {
    for (int i = 0; i < width; ++i) {
      whole += terms.g[i];
      products += terms.g[i] * terms.normalized[i];
    }
  }
  TANDEM_DEVICE Pack<T, width> result_of(const Terms& terms, const HeldPack<T, width>& other, C r, C whole, C products) const {
    Pack<T, width> result;
    for (int i = 0; i < width; ++i) {
      C v = r * (terms.g[i] - whole - terms.normalized[i] * products);
      if (dsum) v += other[i];
      result.v[i] = store<T>(v);
    }
    return result;
  }

  TANDEM_DEVICE void write(std::int64_t at, const Pack<T, width>& result, const Draws& draws) const {
    write_pack(dx, at, result);
    if constexpr (copies) {
      if (!copy) return;
      Compute<M> values[width];
      for (int i = 0; i < width; ++i) values[i] = load(store<M>(load(result.v[i])));
      draws.template drop<M>(values, at * width);
      Pack<M, width> rounded;
      for (int i = 0; i < width; ++i) rounded.v[i] = store<M>(values[i]);
      write_pack(copy, at, rounded);
    }
  }

  // One function: what the columns sum up stays in registers from the first row to the last.
  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const int lane = t.thread() % lanes, group = t.thread() / lanes;
    constexpr int reach = kept * lanes, groups = threads / lanes;
    const std::int32_t beyond = lanes > 32 ? packs : 0;
    const C share = C(1) / (static_cast<C>(packs) * width);
    const Draws draws(rule);
    C scales[kept][width] = {}, biases[kept][width] = {};
    int turn = 0;
    for (std::int64_t row = group * t.blocks() + t.block(); row < rows; row += groups * t.blocks()) {
      const std::int64_t begin = row * packs;
      // Packs behind the row's end are zeros, which add nothing: only loads and stores are in branches, and no branch waits for a load.
      Read reads[kept];
      Terms terms[kept];
      C m = 0, r = 0, whole = 0, products = 0;
      if (lane < packs) {  // in a branch, or the compiler reads them only after it has waited for the packs
        if (!rms) m = mean[row];
        r = inverse_deviation[row];
      }
      for (int k = 0; k < kept; ++k) {
        reads[k] = {};
        if (lane + k * lanes < packs) {
          read(reads[k], begin + lane + k * lanes);
          if (early && dsum) reads[k].sum.read(dsum, begin + lane + k * lanes);
        }
      }
      for (int k = 0; k < kept; ++k) {
        Pack<C, width> factor{};
        if (lane + k * lanes < packs) factor = factor_at(std::int64_t{lane} + k * lanes);
        terms[k] = terms_of(reads[k], factor, m, r);
        sum(terms[k], whole, products);
        for (int i = 0; i < width; ++i) {
          scales[k][i] += gradient_of(reads[k], i) * terms[k].normalized[i];
          biases[k][i] += gradient_of(reads[k], i);
        }
      }
      TANDEM_UNROLL(unroll 2)  // more takes the registers of a second block
      for (std::int32_t p = lane + reach; p < beyond; p += lanes) {
        Read of;
        read(of, begin + p);
        sum(terms_of(of, factor_at(p), m, r), whole, products);
      }
      add_up<lanes>(t, turn++, whole, products);
      whole = rms ? C(0) : whole * share;
      products *= share;
      for (int k = 0; k < kept; ++k)
        if (!early && dsum && lane + k * lanes < packs) reads[k].sum.read(dsum, begin + lane + k * lanes);
      for (int k = 0; k < kept; ++k)
        if (lane + k * lanes < packs) write(begin + lane + k * lanes, result_of(terms[k], reads[k].sum, r, whole, products), draws);
      TANDEM_UNROLL(unroll 2)
      for (std::int32_t p = lane + reach; p < beyond; p += lanes) {
        Read of;
        read(of, begin + p);
        if (dsum) of.sum.read(dsum, begin + p);
        write(begin + p, result_of(terms_of(of, factor_at(p), m, r), of.sum, r, whole, products), draws);
      }
    }
    if (!partial) return;
    C* const own = partial + t.block() * 2 * packs * width;
    // What the block's groups hold of a pack for each lane is added up in their order, by a thread a column.
    for (int k = 0; k < kept && k * lanes < packs; ++k) {
      Pack<C, width> of_scale, of_bias;
      for (int i = 0; i < width; ++i) {
        of_scale.v[i] = scales[k][i];
        of_bias.v[i] = biases[k][i];
      }
      if constexpr (groups == 1) {
        if (lane + k * lanes < packs) {
          write_pack(own, lane + k * lanes, of_scale);
          write_pack(own, packs + lane + k * lanes, of_bias);
        }
      } else {
        constexpr int columns = lanes * width;
        C* const together = t.template shared<C, groups * 2 * columns, 1>();
        write_pack(together, group * 2 * lanes + lane, of_scale);
        write_pack(together, (group * 2 + 1) * lanes + lane, of_bias);
        t.sync();
        for (int c = t.thread(); c < 2 * columns; c += threads) {
          const int column = c % columns + k * columns;
          C sum = together[c];
          for (int g = 1; g < groups; ++g) sum += together[g * 2 * columns + c];
          if (column < packs * width) own[c / columns * packs * width + column] = sum;
        }
        t.sync();
      }
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
