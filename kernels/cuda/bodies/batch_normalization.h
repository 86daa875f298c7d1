// Batch normalization on matrices [pixels, channels], which is what tensors laid out channels last are: statistics, their
// application, its gradient, and running statistics.
#pragma once
#include "graph/step_scalars.h"
#include "kernels/cuda/bodies/types.h"

namespace tandem::cuda {

// Mean and sum of squared distances from it, of numbers seen so far (Chan, Golub and LeVeque's merging).
template <class C>
struct Moments {
  C count = 0, mean = 0, squares = 0;
  TANDEM_DEVICE void add(C x) {
    count += 1;
    const C delta = x - mean;
    mean += delta / count;
    squares += delta * (x - mean);
  }
  TANDEM_DEVICE void merge(const Moments& o) {
    if (o.count == C(0)) return;
    const C whole = count + o.count, delta = o.mean - mean;
    mean += delta * (o.count / whole);
    squares += o.squares + delta * delta * (count * o.count / whole);
    count = whole;
  }
};

inline constexpr int channel_columns = 32, channel_rows = 8;  // a block's tile; 256 threads

// Rows of the matrix that split `split` of `splits` takes.
struct RowShare {
  std::int64_t begin, end;
  TANDEM_DEVICE RowShare(std::int64_t rows, std::int64_t split, std::int64_t splits) {
    const std::int64_t share = (rows + splits - 1) / splits;
    begin = split * share;
    end = begin + share < rows ? begin + share : rows;
  }
};

// partial[split][c] = moments of x[rows of the split, c].
template <class T>
struct MomentsBody {
  static constexpr int threads = channel_columns * channel_rows;
  static constexpr bool cooperative = true;
  const T* x;
  Moments<Compute<T>>* partial;
  std::int64_t rows;
  std::int32_t channels, splits;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    using M = Moments<Compute<T>>;
    const int column = t.thread() % channel_columns, row = t.thread() / channel_columns;
    const std::int64_t split = t.block() % splits, c = t.block() / splits * channel_columns + column;
    M m;
    if (c < channels) {
      const RowShare share(rows, split, splits);
      for (std::int64_t r = share.begin + row; r < share.end; r += channel_rows) m.add(load(x[r * channels + c]));
    }
    M* const part = t.template shared<M, threads, 0>();
    part[t.thread()] = m;
    t.sync();
    if (row != 0 || c >= channels) return;
    for (int k = 1; k < channel_rows; ++k) m.merge(part[k * channel_columns + column]);
    partial[split * channels + c] = m;
  }
};

// Statistics of each channel from its partial moments.
template <class S>
struct StatisticsBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const Moments<S>* partial;
  S *mean, *variance, *inverse_deviation;
  std::int32_t channels, splits;
  float epsilon;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t c = t.block() * threads + t.thread();
    if (c >= channels) return;
    Moments<S> m = partial[c];
    for (std::int32_t s = 1; s < splits; ++s) m.merge(partial[static_cast<std::int64_t>(s) * channels + c]);
    const S v = m.squares / m.count;
    mean[c] = m.mean;
    variance[c] = v;
    inverse_deviation[c] = S(1) / sqrt(v + static_cast<S>(epsilon));
  }
};

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

// Sums of the numbers and of their squares of each channel, from its partial moments.
template <class S>
struct ChannelSumsBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const Moments<S>* partial;
  S *sum, *squares;
  std::int32_t channels, splits;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t c = t.block() * threads + t.thread();
    if (c >= channels) return;
    Moments<S> m = partial[c];
    for (std::int32_t s = 1; s < splits; ++s) m.merge(partial[static_cast<std::int64_t>(s) * channels + c]);
    sum[c] = m.count * m.mean;
    squares[c] = m.squares + m.count * m.mean * m.mean;
  }
};

// Statistics of each channel from such sums over `count` numbers, and what they make of x: x · factor + shift.
template <class T, class S>
struct SummedStatisticsBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const S *sum, *squares, *scale, *bias;
  S *mean, *variance, *inverse_deviation;
  T *factor, *shift;  // may be null
  std::int64_t count;
  std::int32_t channels;
  float epsilon;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t c = t.block() * threads + t.thread();
    if (c >= channels) return;
    const S m = sum[c] / static_cast<S>(count), v = squares[c] / static_cast<S>(count) - m * m;
    mean[c] = m;
    variance[c] = v > S(0) ? v : S(0);  // rounding may leave less than nothing
    inverse_deviation[c] = S(1) / sqrt(variance[c] + static_cast<S>(epsilon));
    if (!factor) return;
    factor[c] = store<T>(inverse_deviation[c] * scale[c]);
    shift[c] = store<T>(bias[c] - m * inverse_deviation[c] * scale[c]);
  }
};

// What is applied to x: y = relu?((x − mean) · d · scale + bias + addend?), d = inverse_deviation or, where that is null,
// 1/√(variance + ε). Without a mean and these: y = relu?(x · scale + bias + addend?).
template <class T, class S>
struct Normalization {
  const T *x, *addend;
  T* y;
  const S *scale, *bias, *mean, *variance, *inverse_deviation;
  float epsilon;
  bool relu;
};

// One channel's part of it.
template <class C>
struct NormalizedChannel {
  C mean, factor, bias;
  template <class T, class S>
  TANDEM_DEVICE void read(const Normalization<T, S>& n, std::int64_t c) {
    C d = 1;
    if (n.inverse_deviation)
      d = static_cast<C>(load(n.inverse_deviation[c]));
    else if (n.variance)
      d /= sqrt(static_cast<C>(load(n.variance[c])) + static_cast<C>(n.epsilon));
    mean = n.mean ? static_cast<C>(load(n.mean[c])) : C(0);
    factor = d * static_cast<C>(load(n.scale[c]));
    bias = static_cast<C>(load(n.bias[c]));
  }
};

// `width` channels at a time, which divides their number: a thread reads and writes them as one, and keeps what it knows of
// them while it meets the same ones again.
template <class T, class S, int width>
struct NormalizeBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  Normalization<T, S> n;
  std::int64_t packs;
  std::int32_t packs_a_row;

  struct alignas(width * sizeof(T)) Pack {
    T v[width];
  };

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    using C = Compute<T>;
    NormalizedChannel<C> channel[width];
    std::int64_t known = -1;
    for (std::int64_t i = t.block() * threads + t.thread(); i < packs; i += t.blocks() * threads) {
      const std::int64_t column = i % packs_a_row;
      if (column != known)
        for (int k = 0; k < width; ++k) channel[k].read(n, column * width + k);
      known = column;
      Pack pack = reinterpret_cast<const Pack*>(n.x)[i], addend{};
      if (n.addend) addend = reinterpret_cast<const Pack*>(n.addend)[i];
      for (int k = 0; k < width; ++k) {
        C v = (load(pack.v[k]) - channel[k].mean) * channel[k].factor + channel[k].bias;
        if (n.addend) v += load(addend.v[k]);
        pack.v[k] = store<T>(n.relu && v < C(0) ? C(0) : v);
      }
      reinterpret_cast<Pack*>(n.y)[i] = pack;
    }
  }
};

// What flows into the normalization: dy, or 0 where its Relu was closed, as y tells or, where that is null, x̂.
template <class T, class S>
struct NormInput {
  const T *x, *dy, *y;
  const S *scale, *bias, *mean, *inverse_deviation;
  bool relu;
  // x̂ and dy of element i of channel c.
  TANDEM_DEVICE void read(std::int64_t i, std::int64_t c, Compute<T>& normalized, Compute<T>& gradient) const {
    using C = Compute<T>;
    normalized = (load(x[i]) - static_cast<C>(mean[c])) * static_cast<C>(inverse_deviation[c]);
    gradient = load(dy[i]);
    if (relu && !((y ? load(y[i]) : normalized * static_cast<C>(scale[c]) + static_cast<C>(bias[c])) > C(0))) gradient = C(0);
  }
};

// partial[split][0][c] = Σ dy · x̂, partial[split][1][c] = Σ dy.
template <class T, class S>
struct NormSumsBody {
  static constexpr int threads = channel_columns * channel_rows;
  static constexpr bool cooperative = true;
  NormInput<T, S> in;
  Compute<T>* partial;
  std::int64_t rows;
  std::int32_t channels, splits;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    using C = Compute<T>;
    const int column = t.thread() % channel_columns, row = t.thread() / channel_columns;
    const std::int64_t split = t.block() % splits, c = t.block() / splits * channel_columns + column;
    C products = 0, sum = 0;
    if (c < channels) {
      const RowShare share(rows, split, splits);
      for (std::int64_t r = share.begin + row; r < share.end; r += channel_rows) {
        C normalized, gradient;
        in.read(r * channels + c, c, normalized, gradient);
        products += gradient * normalized;
        sum += gradient;
      }
    }
    C* const part = t.template shared<C, 2 * threads, 0>();
    part[t.thread()] = products;
    part[threads + t.thread()] = sum;
    t.sync();
    if (row != 0 || c >= channels) return;
    for (int k = 1; k < channel_rows; ++k) {
      products += part[k * channel_columns + column];
      sum += part[threads + k * channel_columns + column];
    }
    partial[(split * 2) * channels + c] = products;
    partial[(split * 2 + 1) * channels + c] = sum;
  }
};

// dscale = Σ dy · x̂, dbias = Σ dy.
template <class S>
struct NormScaleBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;
  const S* partial;
  S *dscale, *dbias;
  std::int32_t channels, splits;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t c = t.block() * threads + t.thread();
    if (c >= channels) return;
    S products = 0, sum = 0;
    for (std::int64_t s = 0; s < splits; ++s) {
      products += partial[s * 2 * channels + c];
      sum += partial[(s * 2 + 1) * channels + c];
    }
    dscale[c] = products;
    dbias[c] = sum;
  }
};

// dx = scale · d · (dy − Σdy/n − x̂ · Σ(dy · x̂)/n), daddend = dy
template <class T, class S>
struct NormGradientBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  NormInput<T, S> in;
  const S *dscale, *dbias;
  T *dx, *daddend;  // the latter may be null
  std::int64_t rows;
  std::int32_t channels;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    using C = Compute<T>;
    const C n = static_cast<C>(rows);
    for (std::int64_t i = t.block() * threads + t.thread(); i < rows * channels; i += t.blocks() * threads) {
      const std::int64_t c = i % channels;
      C normalized, gradient;
      in.read(i, c, normalized, gradient);
      dx[i] = store<T>(static_cast<C>(in.scale[c]) * static_cast<C>(in.inverse_deviation[c]) *
                       (gradient - static_cast<C>(dbias[c]) / n - normalized * static_cast<C>(dscale[c]) / n));
      if (daddend) daddend[i] = store<T>(gradient);
    }
  }
};

// running' = momentum · running + (1 − momentum) · value
template <class T>
struct RunningBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  const T *running, *value;
  T* result;
  std::int64_t elements;
  double momentum;
  const StepScalars* scalars;  // null, or those that may skip the step

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const bool skip = scalars && scalars->skip != 0;
    const T keep = static_cast<T>(momentum), take = static_cast<T>(1 - momentum);
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) result[i] = skip ? running[i] : keep * running[i] + take * value[i];
  }
};

}  // namespace tandem::cuda
