// A row of units of an LSTM, GRU or RNN in one step, between the products: the gates, and their gradients.
#include "kernels/cpu/native/vector/math.h"
#include "kernels/cpu/native/vector/parts.h"

namespace tandem::vector::TANDEM_ISA {
namespace {

using std::int64_t;

template <class T>
void lstm(const RecurrentRow<T>& r) {
  T *const i = r.saved, *const o = i + r.slot, *const f = o + r.slot, *const g = f + r.slot;
  T *const h = r.hidden, *const c = r.cell, *const y = r.y;
#pragma GCC ivdep
  for (int64_t k = 0; k < r.n; ++k) {
    i[k] = math::sigmoid(i[k]);
    o[k] = math::sigmoid(o[k]);
    f[k] = math::sigmoid(f[k]);
    g[k] = math::tanh(g[k]);
    c[k] = f[k] * c[k] + i[k] * g[k];
    y[k] = h[k] = o[k] * math::tanh(c[k]);
  }
}

template <class T>
void lstm_backward(const RecurrentRowBackward<T>& r) {
  const T *const i = r.saved, *const o = i + r.slot, *const f = o + r.slot, *const g = f + r.slot, *const before = g + r.slot;
  T *const di = r.gates, *const d_o = di + r.slot, *const df = d_o + r.slot, *const dg = df + r.slot;
  T *const dh = r.hidden, *const dc = r.cell;
#pragma GCC ivdep
  for (int64_t k = 0; k < r.n; ++k) {
    const T bent = math::tanh(f[k] * before[k] + i[k] * g[k]);
    const T whole = dc[k] + dh[k] * o[k] * (1 - bent * bent);
    d_o[k] = dh[k] * bent * o[k] * (1 - o[k]);
    di[k] = whole * g[k] * i[k] * (1 - i[k]);
    df[k] = whole * before[k] * f[k] * (1 - f[k]);
    dg[k] = whole * i[k] * (1 - g[k] * g[k]);
    dc[k] = whole * f[k];
    dh[k] = 0;
  }
}

// z and r, and r∘h.
template <class T>
void gru_gates(const RecurrentRow<T>& r) {
  T *const z = r.saved, *const reset = z + r.slot, *const inner = z + 3 * r.slot;
  const T* const h = r.hidden;
#pragma GCC ivdep
  for (int64_t k = 0; k < r.n; ++k) {
    z[k] = math::sigmoid(z[k]);
    reset[k] = math::sigmoid(reset[k]);
    inner[k] = reset[k] * h[k];
  }
}
template <class T>
void gru(const RecurrentRow<T>& r) {
  T *const z = r.saved, *const g = z + 2 * r.slot, *const h = r.hidden, *const y = r.y;
#pragma GCC ivdep
  for (int64_t k = 0; k < r.n; ++k) {
    g[k] = math::tanh(g[k]);
    y[k] = h[k] = (1 - z[k]) * g[k] + z[k] * h[k];
  }
}
template <class T>
void gru_linear(const RecurrentRow<T>& r) {
  T *const z = r.saved, *const reset = z + r.slot, *const g = reset + r.slot, *const h = r.hidden, *const y = r.y;
  const T* const inner = g + r.slot;
#pragma GCC ivdep
  for (int64_t k = 0; k < r.n; ++k) {
    z[k] = math::sigmoid(z[k]);
    reset[k] = math::sigmoid(reset[k]);
    g[k] = math::tanh(g[k] + reset[k] * inner[k]);
    y[k] = h[k] = (1 - z[k]) * g[k] + z[k] * h[k];
  }
}

// Those of z and h'; of r once the gradient of r∘h is there.
template <class T>
void gru_backward(const RecurrentRowBackward<T>& r) {
  const T *const z = r.saved, *const g = z + 2 * r.slot, *const before = z + 4 * r.slot;
  T *const dz = r.gates, *const dg = dz + 2 * r.slot, *const dh = r.hidden;
#pragma GCC ivdep
  for (int64_t k = 0; k < r.n; ++k) {
    dg[k] = dh[k] * (1 - z[k]) * (1 - g[k] * g[k]);
    dz[k] = dh[k] * (before[k] - g[k]) * z[k] * (1 - z[k]);
    dh[k] = dh[k] * z[k];
  }
}
template <class T>
void gru_reset_backward(const RecurrentRowBackward<T>& r) {
  const T *const reset = r.saved + r.slot, *const before = r.saved + 4 * r.slot, *const dinner = r.inner;
  T *const dr = r.gates + r.slot, *const dh = r.hidden;
#pragma GCC ivdep
  for (int64_t k = 0; k < r.n; ++k) {
    dr[k] = dinner[k] * before[k] * reset[k] * (1 - reset[k]);
    dh[k] = dh[k] + dinner[k] * reset[k];
  }
}
template <class T>
void gru_linear_backward(const RecurrentRowBackward<T>& r) {
  const T *const z = r.saved, *const reset = z + r.slot, *const g = reset + r.slot, *const inner = g + r.slot;
  const T* const before = inner + r.slot;
  T *const dz = r.gates, *const dr = dz + r.slot, *const dg = dr + r.slot, *const dinner = r.inner, *const dh = r.hidden;
#pragma GCC ivdep
  for (int64_t k = 0; k < r.n; ++k) {
    dg[k] = dh[k] * (1 - z[k]) * (1 - g[k] * g[k]);
    dz[k] = dh[k] * (before[k] - g[k]) * z[k] * (1 - z[k]);
    dr[k] = dg[k] * inner[k] * reset[k] * (1 - reset[k]);
    dinner[k] = dg[k] * reset[k];
    dh[k] = dh[k] * z[k];
  }
}

template <class T, bool relu>
void rnn(const RecurrentRow<T>& r) {
  T *const a = r.saved, *const h = r.hidden, *const y = r.y;
#pragma GCC ivdep
  for (int64_t k = 0; k < r.n; ++k) y[k] = h[k] = a[k] = relu ? (a[k] < 0 ? T(0) : a[k]) : math::tanh(a[k]);
}
template <class T, bool relu>
void rnn_backward(const RecurrentRowBackward<T>& r) {
  const T* const a = r.saved;
  T *const da = r.gates, *const dh = r.hidden;
#pragma GCC ivdep
  for (int64_t k = 0; k < r.n; ++k) {
    da[k] = relu ? (a[k] > 0 ? dh[k] : T(0)) : dh[k] * (1 - a[k] * a[k]);
    dh[k] = 0;
  }
}

}  // namespace

template <class T>
const Recurring<T>& recurring() {
  static const Recurring<T> all{lstm<T>,
                                gru_gates<T>,
                                gru<T>,
                                gru_linear<T>,
                                {rnn<T, false>, rnn<T, true>},
                                lstm_backward<T>,
                                gru_backward<T>,
                                gru_reset_backward<T>,
                                gru_linear_backward<T>,
                                {rnn_backward<T, false>, rnn_backward<T, true>}};
  return all;
}
template const Recurring<float>& recurring();
template const Recurring<double>& recurring();

}  // namespace tandem::vector::TANDEM_ISA
