// Normalization of channels, or of each sample's groups of channels, on matrices [samples][rows, channels], from their statistics
// (channel_statistics.h): its application and its gradient. BatchNormalization has one sample, whose groups are its channels.
#pragma once
#include "graph/step_scalars.h"
#include "kernels/cuda/bodies/channel_tiles.h"
#include "kernels/cuda/bodies/tensor_table.h"

namespace tandem::cuda {

// variance = 1 / inverse_deviation² − ε, where only the latter is known.
struct VarianceBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const float* inverse_deviation;
  float* variance;
  std::int32_t channels;
  float epsilon;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t c = t.block() * threads + t.thread();
    if (c >= channels) return;
    const float v = 1.0F / (inverse_deviation[c] * inverse_deviation[c]) - epsilon;
    variance[c] = v > 0.0F ? v : 0.0F;
  }
};

// Statistics of each channel from sums of its numbers and of their squares over `count` numbers, and what they make of x: x · factor +
// shift.
template <class T, class S>
struct SummedStatisticsBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const S *sum, *squares, *scale, *bias;
  S *mean, *variance, *inverse_deviation;  // variance may be null
  T *factor, *shift;                       // may be null
  std::int64_t count;
  std::int32_t channels;
  float epsilon;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t c = t.block() * threads + t.thread();
    if (c >= channels) return;
    // rounding may leave less than nothing
    const S m = sum[c] / static_cast<S>(count), difference = squares[c] / static_cast<S>(count) - m * m,
            v = difference > S(0) ? difference : S(0);
    mean[c] = m;
    if (variance) variance[c] = v;
    inverse_deviation[c] = S(1) / sqrt(v + static_cast<S>(epsilon));
    if (!factor) return;
    factor[c] = store<T>(inverse_deviation[c] * scale[c]);
    shift[c] = store<T>(bias[c] - m * inverse_deviation[c] * scale[c]);
  }
};

// Which statistics a channel has.
struct Groups {
  std::int32_t groups, channels;  // channels: of a group
  TANDEM_DEVICE std::int64_t of(std::int64_t sample, std::int64_t c) const { return sample * groups + (channels == 1 ? c : c / channels); }
};

// What is applied to x: y = relu?((x − mean) · d · scale + bias + addend?), d = inverse_deviation or, where that is null,
// 1/√(variance + ε). Without a mean and these: y = relu?(x · scale + bias + addend?). Scale and bias may be null.
template <class T, class S>
struct Normalization {
  const T *x, *addend;
  T* y;
  const S *scale, *bias, *mean, *variance, *inverse_deviation;
  float epsilon;
  bool relu;
  Groups groups;
};

// One channel's part of it.
template <class C>
struct NormalizedChannel {
  C mean, factor, bias;
  template <class T, class S>
  TANDEM_DEVICE void read(const Normalization<T, S>& n, std::int64_t sample, std::int64_t c) {
    const std::int64_t g = n.groups.of(sample, c);
    C d = 1;
    if (n.inverse_deviation)
      d = static_cast<C>(load(n.inverse_deviation[g]));
    else if (n.variance)
      d /= sqrt(static_cast<C>(load(n.variance[g])) + static_cast<C>(n.epsilon));
    mean = n.mean ? static_cast<C>(load(n.mean[g])) : C(0);
    factor = n.scale ? d * static_cast<C>(load(n.scale[c])) : d;
    bias = n.bias ? static_cast<C>(load(n.bias[c])) : C(0);
  }
};

template <class T, class S, int width>
struct NormalizeBody {
  static constexpr int threads = tile_threads;
  static constexpr bool cooperative = false;
  ChannelTiles tiles;
  Normalization<T, S> n;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    using C = Compute<T>;
    const TilePlace p = tiles.place(t);
    NormalizedChannel<C> channel[width];
    if (p.rows > 0)
      for (int k = 0; k < width; ++k) channel[k].read(n, p.sample, std::int64_t{p.pack} * width + k);
    std::int64_t at = p.first;
    TANDEM_UNROLL(unroll 4)
    for (std::int64_t r = 0; r < p.rows; ++r, at += p.step) {
      Pack<T, width> pack = read_pack<width>(n.x, at), addend{};
      if (n.addend) addend = read_pack<width>(n.addend, at);
      for (int k = 0; k < width; ++k) {
        C v = (load(pack.v[k]) - channel[k].mean) * channel[k].factor + channel[k].bias;
        if (n.addend) v += load(addend.v[k]);
        pack.v[k] = store<T>(n.relu && v < C(0) ? C(0) : v);
      }
      write_pack(n.y, at, pack);
    }
  }
};

// What flows into the normalization: dy, or the sum of it and `other`, or 0 where its Relu was closed, as y tells or, where that is
// null, x̂.
template <class T>
struct NormInput {
  using C = Compute<T>;
  const T *x, *dy, *y;
  const C *scale, *bias, *mean, *inverse_deviation;  // scale and bias may be null
  bool relu;
  Groups groups;
  const T* other = nullptr;
};
// One channel's part of it: x − mean and dy of an element.
template <class T>
struct NormInputChannel {
  using C = Compute<T>;
  C mean, inverse, factor, bias;
  TANDEM_DEVICE void read(const NormInput<T>& in, std::int64_t sample, std::int64_t c) {
    const std::int64_t g = in.groups.of(sample, c);
    mean = in.mean[g];
    inverse = in.inverse_deviation[g];
    factor = in.scale ? inverse * in.scale[c] : inverse;
    bias = in.bias ? in.bias[c] : C(0);
  }
  TANDEM_DEVICE void see(const NormInput<T>& in, T x, T dy, T y, T other, C& centred, C& gradient) const {
    centred = load(x) - mean;
    gradient = load(dy);
    if (in.other) gradient = load(store<T>(gradient + load(other)));  // as a sum of its own would round
    if (in.relu && !((in.y ? load(y) : centred * factor + bias) > C(0))) gradient = C(0);
  }
};

// f(k, x − mean, dy) of the pack at `at`, whose channels these are.
template <class T, int width, class F>
TANDEM_DEVICE void see_pack(const NormInput<T>& in, const NormInputChannel<T> (&channel)[width], std::int64_t at, F&& f) {
  const Pack<T, width> x = read_pack<width>(in.x, at), dy = read_pack<width>(in.dy, at);
  Pack<T, width> y{}, other{};
  if (in.y) y = read_pack<width>(in.y, at);
  if (in.other) other = read_pack<width>(in.other, at);
  for (int k = 0; k < width; ++k) {
    Compute<T> centred, gradient;
    channel[k].see(in, x.v[k], dy.v[k], y.v[k], other.v[k], centred, gradient);
    f(k, centred, gradient);
  }
}

// partial[sample, split][0][c] = Σ dy · x̂, partial[sample, split][1][c] = Σ dy; daddend = dy.
template <class T, int width>
struct NormSumsBody {
  static constexpr int threads = tile_threads;
  static constexpr bool cooperative = true;
  ChannelTiles tiles;
  NormInput<T> in;
  Compute<T>* partial;
  T* daddend = nullptr;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    using C = Compute<T>;
    const TilePlace p = tiles.place(t);
    NormInputChannel<T> channel[width] = {};
    C sums[2 * width] = {};
    if (p.rows > 0)
      for (int k = 0; k < width; ++k) channel[k].read(in, p.sample, std::int64_t{p.pack} * width + k);
    std::int64_t at = p.first;
    TANDEM_UNROLL(unroll 2)
    for (std::int64_t r = 0; r < p.rows; ++r, at += p.step) {
      Pack<T, width> masked;
      see_pack(in, channel, at, [&](int k, C centred, C gradient) {
        sums[k] += gradient * centred;
        sums[width + k] += gradient;
        masked.v[k] = store<T>(gradient);
      });
      if (daddend) write_pack(daddend, at, masked);
    }
    for (int k = 0; k < width; ++k) sums[k] *= channel[k].inverse;
    const std::int64_t channels = std::int64_t{tiles.packs} * width;
    C* const own = partial + (p.sample * tiles.splits + p.split) * 2 * channels;
    sum_columns(t, tiles.columns, sums, [&](int v, int column, C sum) {
      const std::int64_t pack = p.pack - p.column + column;
      if (pack < tiles.packs) own[v / width * channels + pack * width + v % width] = sum;
    });
  }
};

// dx = d · (g − Σg/n − x̂ · Σ(g · x̂)/n) with g = scale · dy. The sums are of a group, or a channel's dscale and dbias.
template <class T, int width>
struct NormGradientBody {
  static constexpr int threads = tile_threads;
  static constexpr bool cooperative = false;
  using C = Compute<T>;
  ChannelTiles tiles;
  NormInput<T> in;
  const C *dscale, *dbias, *sums;  // sums: of each group Σ(g · x̂) and Σg, in place of the others
  T* dx;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const TilePlace p = tiles.place(t);
    NormInputChannel<T> channel[width] = {};
    C level[width] = {}, slope[width] = {};
    const C share = C(1) / (static_cast<C>(tiles.rows) * static_cast<C>(in.groups.channels));
    if (p.rows > 0)
      for (int k = 0; k < width; ++k) {
        const std::int64_t c = std::int64_t{p.pack} * width + k, g = in.groups.of(p.sample, c);
        channel[k].read(in, p.sample, c);
        const C factor = in.scale ? in.scale[c] : C(1);
        const C products = sums ? sums[2 * g] : factor * dscale[c], whole = sums ? sums[2 * g + 1] : factor * dbias[c];
        level[k] = channel[k].inverse * (whole * share);
        slope[k] = channel[k].inverse * channel[k].inverse * (products * share);
      }
    std::int64_t at = p.first;
    TANDEM_UNROLL(unroll 2)
    for (std::int64_t r = 0; r < p.rows; ++r, at += p.step) {
      Pack<T, width> result;
      see_pack(in, channel, at, [&](int k, C centred, C gradient) {
        result.v[k] = store<T>(channel[k].factor * gradient - level[k] - centred * slope[k]);
      });
      write_pack(dx, at, result);
    }
  }
};

// running' = momentum · running + share · value, of many statistics at once, share being 1 − momentum, or n/(n − 1) times that. Where
// `inverse` says so value is 1 / given² − ε: the variance, of 1/√(variance + ε).
template <class T>
struct RunningBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  struct Tensor {
    const T *running, *given;
    T* result;
    std::int64_t elements;
    T share;  // taken of the value
    bool inverse, packs;
  };
  TensorTable<Tensor, 512> table;
  double momentum;
  float epsilon;
  const StepScalars* scalars;  // null, or those that may skip the step

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const auto p = table.piece(t);
    const Tensor& a = table.tensors[p.tensor];
    const bool skip = scalars && scalars->skip != 0;
    const T keep = static_cast<T>(momentum), take = a.share, least = static_cast<T>(epsilon);
    table.template each<full_pack<T>, threads>(t, p, [&](auto width, std::int64_t i) {
      Pack<T, width> running = read_at<width>(a.running, i);
      const Pack<T, width> given = read_at<width>(a.given, i);
      for (int k = 0; k < width; ++k) {
        T value = given.v[k];
        if (a.inverse) {
          value = T(1) / (value * value) - least;
          value = value > T(0) ? value : T(0);
        }
        if (!skip) running.v[k] = keep * running.v[k] + take * value;
      }
      write_at(a.result, i, running);
    });
  }
};

}  // namespace tandem::cuda
