// Normalization of rows and its gradient. Sixteen lanes in four vectors are the order of summation within a piece of a row, pieces
// and rows are summed in double or in blocks: what is summed in which order depends on shapes alone.
#include "kernels/cpu/native/vector/elements.h"
#include "kernels/cpu/native/vector/parts.h"

namespace tandem::vector::TANDEM_ISA {
namespace {

using std::int64_t;

constexpr int vectors = 4, step = lanes * vectors;
constexpr int64_t piece = 4096;

template <class S>
double total(const Lanes<S> (&part)[vectors]) {
  const Lanes<S> sum = (part[0] + part[1]) + (part[2] + part[3]);
  double all = 0;
  for (int k = 0; k < lanes; ++k) all += static_cast<double>(sum[k]);
  return all;
}

// Σ f(i) for i < n: `wide` gives f of the sixteen from i on, `one` of one.
template <class S, class Wide, class One>
double sum_of(int64_t n, const Wide& wide, const One& one) {
  double all = 0;
  for (int64_t begin = 0; begin < n; begin += piece) {
    const int64_t end = begin + piece < n ? begin + piece : n;
    Lanes<S> part[vectors] = {};
    int64_t i = begin;
    for (; i + step <= end; i += step)
      for (int v = 0; v < vectors; ++v) part[v] += wide(i + v * lanes);
    for (; i + lanes <= end; i += lanes) part[0] += wide(i);
    for (; i < end; ++i) all += static_cast<double>(one(i));
    all += total<S>(part);
  }
  return all;
}

// x and the sum are held as E, the addend as A, y as Y.
template <class E, bool adds, class A = E, class Y = E>
void forward(const NormalizedRows& r) {
  using T = typename E::Element;
  using S = typename E::Sum;
  const S *const scale = static_cast<const S*>(r.scale), *const bias = static_cast<const S*>(r.bias);
  const double count = static_cast<double>(r.n);
  for (int64_t row = 0; row < r.rows; ++row) {
    const T* x = static_cast<const T*>(r.x) + row * r.n;
    if constexpr (adds) {
      const auto* const addend = static_cast<const typename A::Element*>(r.addend) + row * r.n;
      T* const sum = static_cast<T*>(r.sum) + row * r.n;
      int64_t i = 0;
      for (; i + lanes <= r.n; i += lanes) E::store(sum + i, E::load(x + i) + A::load(addend + i));
      for (; i < r.n; ++i) E::put(sum + i, E::get(x + i) + A::get(addend + i));
      x = sum;
    }
    double middle = 0;
    if (!r.rms) middle = sum_of<S>(r.n, [&](int64_t i) { return E::load(x + i); }, [&](int64_t i) { return E::get(x + i); }) / count;
    const S mean = static_cast<S>(middle);
    const double variance = sum_of<S>(
                                r.n,
                                [&](int64_t i) {
                                  const Lanes<S> d = E::load(x + i) - mean;
                                  return d * d;
                                },
                                [&](int64_t i) {
                                  const S d = E::get(x + i) - mean;
                                  return d * d;
                                }) /
                            count;
    const S inverse = static_cast<S>(1 / __builtin_sqrt(variance + r.epsilon));
    static_cast<S*>(r.mean)[row] = mean;
    static_cast<S*>(r.inverse_deviation)[row] = inverse;
    auto* const y = static_cast<typename Y::Element*>(r.y) + row * r.n;
    int64_t i = 0;
    for (; i + lanes <= r.n; i += lanes)
      Y::store(y + i, (E::load(x + i) - mean) * inverse * Plain<S>::load(scale + i) + Plain<S>::load(bias + i));
    for (; i < r.n; ++i) Y::put(y + i, (E::get(x + i) - mean) * inverse * scale[i] + bias[i]);
  }
}

// What a row gives to the gradients of scale and bias is added to dscale and dbias. dy is held as D, all else as E.
template <class E, bool adds, bool scales, class D = E>
void backward(const NormalizedRowsBackward& r) {
  using T = typename E::Element;
  using S = typename E::Sum;
  const S* const scale = static_cast<const S*>(r.scale);
  S *const dscale = static_cast<S*>(r.dscale), *const dbias = static_cast<S*>(r.dbias);
  const double count = static_cast<double>(r.n);
  for (int64_t row = 0; row < r.rows; ++row) {
    const auto* const dy = static_cast<const typename D::Element*>(r.dy) + row * r.n;
    const T* const x = static_cast<const T*>(r.x) + row * r.n;
    const T* const dsum = adds ? static_cast<const T*>(r.dsum) + row * r.n : nullptr;
    T* const dx = static_cast<T*>(r.dx) + row * r.n;
    const S mean = static_cast<const S*>(r.mean)[row], inverse = static_cast<const S*>(r.inverse_deviation)[row];
    double plain = 0, along = 0;  // Σ g, Σ g·x̂
    for (int64_t begin = 0; begin < r.n; begin += piece) {
      const int64_t end = begin + piece < r.n ? begin + piece : r.n;
      Lanes<S> part[2][vectors] = {};
      const auto add = [&](int64_t i, int v) {
        const Lanes<S> d = D::load(dy + i), normal = (E::load(x + i) - mean) * inverse, g = d * Plain<S>::load(scale + i);
        part[0][v] += g;
        part[1][v] += g * normal;
        if constexpr (scales) {
          Plain<S>::store(dscale + i, Plain<S>::load(dscale + i) + d * normal);
          Plain<S>::store(dbias + i, Plain<S>::load(dbias + i) + d);
        }
      };
      int64_t i = begin;
      for (; i + step <= end; i += step)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) add(i + v * lanes, v);
      for (; i + lanes <= end; i += lanes) add(i, 0);
      for (; i < end; ++i) {
        const S d = D::get(dy + i), normal = (E::get(x + i) - mean) * inverse, g = d * scale[i];
        plain += static_cast<double>(g);
        along += static_cast<double>(g * normal);
        if constexpr (scales) {
          dscale[i] += d * normal;
          dbias[i] += d;
        }
      }
      plain += total<S>(part[0]);
      along += total<S>(part[1]);
    }
    const S shift = r.rms ? S(0) : static_cast<S>(plain / count), tilt = static_cast<S>(along / count);
    int64_t i = 0;
    for (; i + lanes <= r.n; i += lanes) {
      const Lanes<S> normal = (E::load(x + i) - mean) * inverse;
      Lanes<S> d = (D::load(dy + i) * Plain<S>::load(scale + i) - shift - normal * tilt) * inverse;
      if constexpr (adds) d += E::load(dsum + i);
      E::store(dx + i, d);
    }
    for (; i < r.n; ++i) {
      const S normal = (E::get(x + i) - mean) * inverse;
      S d = (D::get(dy + i) * scale[i] - shift - normal * tilt) * inverse;
      if constexpr (adds) d += E::get(dsum + i);
      E::put(dx + i, d);
    }
  }
}

// Σ x / n and Σ (x − mean)² / n
template <class E>
double mean_of(const typename E::Element* x, int64_t n) {
  using S = typename E::Sum;
  return sum_of<S>(n, [&](int64_t i) { return E::load(x + i); }, [&](int64_t i) { return E::get(x + i); }) / static_cast<double>(n);
}
template <class E>
double variance_of(const typename E::Element* x, int64_t n, typename E::Sum mean) {
  using S = typename E::Sum;
  const auto wide = [&](int64_t i) {
    const Lanes<S> d = E::load(x + i) - mean;
    return d * d;
  };
  const auto one = [&](int64_t i) {
    const S d = E::get(x + i) - mean;
    return d * d;
  };
  return sum_of<S>(n, wide, one) / static_cast<double>(n);
}

template <class E>
void forward_channels(const NormalizedChannels& g) {
  using T = typename E::Element;
  using S = typename E::Sum;
  const S *const scale = static_cast<const S*>(g.scale), *const bias = static_cast<const S*>(g.bias);
  const S mean = static_cast<S>(mean_of<E>(static_cast<const T*>(g.x), g.channels * g.n));
  const S inverse = static_cast<S>(1 / __builtin_sqrt(variance_of<E>(static_cast<const T*>(g.x), g.channels * g.n, mean) + g.epsilon));
  *static_cast<S*>(g.mean) = mean;
  *static_cast<S*>(g.inverse_deviation) = inverse;
  for (int64_t c = 0; c < g.channels; ++c) {
    const T* const x = static_cast<const T*>(g.x) + c * g.n;
    T* const y = static_cast<T*>(g.y) + c * g.n;
    const S factor = scale ? inverse * scale[c] : inverse, shift = bias ? bias[c] : S(0);
    int64_t i = 0;
    for (; i + lanes <= g.n; i += lanes) E::store(y + i, (E::load(x + i) - mean) * factor + shift);
    for (; i < g.n; ++i) E::put(y + i, (E::get(x + i) - mean) * factor + shift);
  }
}

template <class E>
void backward_channels(const NormalizedChannelsBackward& g) {
  using T = typename E::Element;
  using S = typename E::Sum;
  const S* const scale = static_cast<const S*>(g.scale);
  const S mean = *static_cast<const S*>(g.mean), inverse = *static_cast<const S*>(g.inverse_deviation);
  double plain = 0, along = 0;  // Σ g, Σ g·x̂
  for (int64_t c = 0; c < g.channels; ++c) {
    const T *const dy = static_cast<const T*>(g.dy) + c * g.n, *const x = static_cast<const T*>(g.x) + c * g.n;
    const double sum = sum_of<S>(g.n, [&](int64_t i) { return E::load(dy + i); }, [&](int64_t i) { return E::get(dy + i); });
    const double product = static_cast<double>(inverse) * sum_of<S>(
                                                              g.n, [&](int64_t i) { return E::load(dy + i) * (E::load(x + i) - mean); },
                                                              [&](int64_t i) { return E::get(dy + i) * (E::get(x + i) - mean); });
    const double factor = scale ? static_cast<double>(scale[c]) : 1;
    plain += factor * sum;
    along += factor * product;
    if (g.dscale) {
      g.dscale[c] += product;
      g.dbias[c] += sum;
    }
  }
  const double count = static_cast<double>(g.channels * g.n);
  const S shift = static_cast<S>(plain / count), tilt = static_cast<S>(along / count);
  for (int64_t c = 0; c < g.channels; ++c) {
    const T *const dy = static_cast<const T*>(g.dy) + c * g.n, *const x = static_cast<const T*>(g.x) + c * g.n;
    T* const dx = static_cast<T*>(g.dx) + c * g.n;
    const S factor = scale ? scale[c] : S(1);
    int64_t i = 0;
    for (; i + lanes <= g.n; i += lanes)
      E::store(dx + i, (E::load(dy + i) * factor - shift - (E::load(x + i) - mean) * inverse * tilt) * inverse);
    for (; i < g.n; ++i) E::put(dx + i, (E::get(dy + i) * factor - shift - (E::get(x + i) - mean) * inverse * tilt) * inverse);
  }
}

template <class E>
constexpr RowNormalizations normalizations = {
    {forward<E, false>, forward<E, true>},
    {{backward<E, false, false>, backward<E, false, true>}, {backward<E, true, false>, backward<E, true, true>}},
    forward_channels<E>,
    backward_channels<E>,
};

// float rows with addend and dy of bfloat16, and y held as Y.
template <class Y>
constexpr RowNormalizations beside_float = {
    {forward<Plain<float>, false, Bfloat16, Y>, forward<Plain<float>, true, Bfloat16, Y>},
    {{backward<Plain<float>, false, false, Bfloat16>, backward<Plain<float>, false, true, Bfloat16>}, {backward<Plain<float>, true, false, Bfloat16>, backward<Plain<float>, true, true, Bfloat16>}},
    nullptr,
    nullptr,
};

}  // namespace

const RowNormalizations row_normalizations[] = {
    normalizations<Plain<float>>, normalizations<Plain<double>>,   normalizations<Bfloat16>,     beside_float<Plain<float>>,
    beside_float<Bfloat16>,       normalizations<RoundedBfloat16>, beside_float<RoundedBfloat16>};

}  // namespace tandem::vector::TANDEM_ISA
