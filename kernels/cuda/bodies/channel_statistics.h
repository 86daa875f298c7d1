// Mean and variance by channel, or by sample and group of channels, of matrices [samples][rows, channels]: partial sums of each
// block's rows, and what follows from them.
#pragma once
#include "kernels/cuda/bodies/channel_tiles.h"
#include "kernels/cuda/bodies/pair_sums.h"

namespace tandem::cuda {

// Mean and sum of squared distances from it (Chan, Golub and LeVeque's merging).
template <class C>
struct Moments {
  C count = 0, mean = 0, squares = 0;
  TANDEM_DEVICE void merge(const Moments& o) {
    if (o.count == C(0)) return;
    const C whole = count + o.count, delta = o.mean - mean;
    mean += delta * (o.count / whole);
    squares += o.squares + delta * delta * (count * o.count / whole);
    count = whole;
  }
};

// Of each sample, split and channel: its first number s, Σ (x − s) and Σ (x − s)², as three rows.
template <class T, int width>
struct MomentsBody {
  static constexpr int threads = tile_threads;
  static constexpr bool cooperative = true;
  ChannelTiles tiles;
  const T* x;
  Compute<T>* partial;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    using C = Compute<T>;
    const TilePlace p = tiles.place(t);
    C shift[width] = {}, sums[2 * width] = {};
    if (p.inside && tiles.rows > 0) {
      const Pack<T, width> pack = read_pack<width>(x, (p.sample * tiles.rows + p.split * tiles.share()) * tiles.packs + p.pack);
      for (int k = 0; k < width; ++k) shift[k] = load(pack.v[k]);
    }
    std::int64_t at = p.first;
    TANDEM_UNROLL(unroll 4)
    for (std::int64_t r = 0; r < p.rows; ++r, at += p.step) {
      const Pack<T, width> pack = read_pack<width>(x, at);
      for (int k = 0; k < width; ++k) {
        const C d = load(pack.v[k]) - shift[k];
        sums[k] += d;
        sums[width + k] += d * d;
      }
    }
    const std::int64_t channels = std::int64_t{tiles.packs} * width;
    C* const own = partial + (p.sample * tiles.splits + p.split) * 3 * channels;
    if (p.inside && t.thread() < tiles.columns)
      for (int k = 0; k < width; ++k) own[std::int64_t{p.pack} * width + k] = shift[k];
    sum_columns(t, tiles.columns, sums, [&](int v, int column, C sum) {
      const std::int64_t pack = p.pack - p.column + column;
      if (pack < tiles.packs) own[(1 + v / width) * channels + pack * width + v % width] = sum;
    });
  }
};

// What one split found of a channel.
template <class S>
TANDEM_DEVICE Moments<S> moments_of(const S* partial, const ChannelTiles& tiles, std::int64_t channels, std::int64_t sample,
                                    std::int64_t split, std::int64_t c) {
  const S* const from = partial + (sample * tiles.splits + split) * 3 * channels + c;
  const S count = static_cast<S>(tiles.rows_of(split)), sum = from[channels];
  if (count == S(0)) return {};
  const S squares = from[2 * channels] - sum * (sum / count);
  return {count, from[0] + sum / count, squares > S(0) ? squares : S(0)};
}

// The moments of a block's threads as one, in thread `column` of the first `columns` (a power of two).
template <int threads, class S, class Thread>
TANDEM_DEVICE Moments<S> merge_columns(const Thread& t, int columns, Moments<S> own) {
  Moments<S>* const part = t.template shared<Moments<S>, threads, 0>();
  part[t.thread()] = own;
  for (int half = threads / 2; half >= columns; half /= 2) {
    t.sync();
    if (t.thread() < half) part[t.thread()].merge(part[t.thread() + half]);
  }
  return part[t.thread()];
}

// Statistics of each channel of one sample.
template <class S>
struct StatisticsBody {
  static constexpr int threads = finish_columns * finish_rows;
  static constexpr bool cooperative = true;
  ChannelTiles tiles;
  const S* partial;
  S *mean, *variance, *inverse_deviation;  // null: sums are wanted
  S *sum, *squares;                        // Σ x and Σ x²
  std::int32_t channels;
  float epsilon;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t c = t.block() * finish_columns + t.thread() % finish_columns;
    Moments<S> m;
    if (c < channels)
      for (std::int32_t s = t.thread() / finish_columns; s < tiles.splits; s += finish_rows)
        m.merge(moments_of(partial, tiles, channels, 0, s, c));
    m = merge_columns<threads>(t, finish_columns, m);
    if (t.thread() >= finish_columns || c >= channels) return;
    if (sum) {
      sum[c] = m.count * m.mean;
      squares[c] = m.squares + m.count * m.mean * m.mean;
      return;
    }
    const S v = m.squares / m.count;
    mean[c] = m.mean;
    if (variance) variance[c] = v;
    inverse_deviation[c] = S(1) / sqrt(v + static_cast<S>(epsilon));
  }
};

// Statistics of each sample's groups of channels: a block a group.
template <class S>
struct GroupStatisticsBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = true;
  ChannelTiles tiles;
  const S* partial;
  S *mean, *inverse_deviation;
  std::int32_t groups, group_channels;
  double epsilon;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t sample = t.block() / groups, group = t.block() % groups, channels = std::int64_t{groups} * group_channels;
    Moments<S> m;
    for (std::int64_t i = t.thread(); i < std::int64_t{tiles.splits} * group_channels; i += threads)
      m.merge(moments_of(partial, tiles, channels, sample, i / group_channels, group * group_channels + i % group_channels));
    m = merge_columns<threads>(t, 1, m);
    if (t.thread() != 0) return;
    mean[t.block()] = m.mean;
    inverse_deviation[t.block()] = S(1) / sqrt(m.squares / m.count + static_cast<S>(epsilon));
  }
};

// Of each sample's groups Σ scale·Σ dy·x̂ and Σ scale·Σ dy, of what blocks left of the inner sums: a block a group.
template <class S>
struct GroupSumsBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = true;
  const S *partial, *scale;  // the latter may be null
  S* sums;
  std::int32_t groups, group_channels, splits;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const auto add = [](S a, S b) { return a + b; };
    const std::int64_t sample = t.block() / groups, group = t.block() % groups, channels = std::int64_t{groups} * group_channels;
    S products = 0, whole = 0;
    for (std::int64_t i = t.thread(); i < std::int64_t{splits} * group_channels; i += threads) {
      const std::int64_t c = group * group_channels + i % group_channels;
      const S* const from = partial + (sample * splits + i / group_channels) * 2 * channels + c;
      const S factor = scale ? scale[c] : S(1);
      products += factor * from[0];
      whole += factor * from[channels];
    }
    products = combine_block<threads, 0>(t, products, add);
    whole = combine_block<threads, 1>(t, whole, add);
    if (t.thread() != 0) return;
    sums[2 * t.block()] = products;
    sums[2 * t.block() + 1] = whole;
  }
};

}  // namespace tandem::cuda
