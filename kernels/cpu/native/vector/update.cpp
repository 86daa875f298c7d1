// Optimizer steps over contiguous elements. Formulas: docs/internal-operators.md.
#include "kernels/cpu/native/vector/math.h"
#include "kernels/cpu/native/vector/parts.h"

namespace tandem::vector::TANDEM_ISA {
namespace {

using std::int64_t;

template <class T>
void sgd(T* w, const T* g, T* m, T*, int64_t n, const UpdateNumbers& u) {
  const T rate = static_cast<T>(u.rate), decay = static_cast<T>(u.weight_decay), momentum = static_cast<T>(u.momentum);
  const T unscale = static_cast<T>(u.unscale);
  if (m == nullptr) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) w[i] -= rate * (unscale * g[i] + decay * w[i]);
  } else if (u.nesterov) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T slope = unscale * g[i] + decay * w[i];
      m[i] = momentum * m[i] + slope;
      w[i] -= rate * (slope + momentum * m[i]);
    }
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      m[i] = momentum * m[i] + (unscale * g[i] + decay * w[i]);
      w[i] -= rate * m[i];
    }
  }
}

template <class T>
void adam(T* w, const T* g, T* m, T* v, int64_t n, const UpdateNumbers& u) {
  const T rate = static_cast<T>(u.rate / u.correction1), beta1 = static_cast<T>(u.beta1), beta2 = static_cast<T>(u.beta2);
  const T rest1 = static_cast<T>(1 - u.beta1), rest2 = static_cast<T>(1 - u.beta2), epsilon = static_cast<T>(u.epsilon);
  const T scale = static_cast<T>(1 / u.correction2), unscale = static_cast<T>(u.unscale);
  const T decay = static_cast<T>(u.decoupled ? 0 : u.weight_decay);
  const T shrink = static_cast<T>(u.decoupled ? 1 - u.rate * u.weight_decay : 1);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T slope = unscale * g[i] + decay * w[i];
    m[i] = beta1 * m[i] + rest1 * slope;
    v[i] = beta2 * v[i] + rest2 * slope * slope;
    w[i] = shrink * w[i] - rate * m[i] / (math::sqrt(v[i] * scale) + epsilon);
  }
}

template <class T>
void rmsprop(T* w, const T* g, T* s, T* m, int64_t n, const UpdateNumbers& u) {
  const T rate = static_cast<T>(u.rate), rho = static_cast<T>(u.beta1), rest = static_cast<T>(1 - u.beta1);
  const T epsilon = static_cast<T>(u.epsilon), decay = static_cast<T>(u.weight_decay), momentum = static_cast<T>(u.momentum);
  const T unscale = static_cast<T>(u.unscale);
  if (m == nullptr) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T slope = unscale * g[i] + decay * w[i];
      s[i] = rho * s[i] + rest * slope * slope;
      w[i] -= rate * (slope / (math::sqrt(s[i]) + epsilon));
    }
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T slope = unscale * g[i] + decay * w[i];
      s[i] = rho * s[i] + rest * slope * slope;
      m[i] = momentum * m[i] + slope / (math::sqrt(s[i]) + epsilon);
      w[i] -= rate * m[i];
    }
  }
}

}  // namespace

template <class T>
const Updates<T>& updates() {
  static constexpr Updates<T> all = {sgd<T>, adam<T>, rmsprop<T>};
  return all;
}
template const Updates<float>& updates<float>();
template const Updates<double>& updates<double>();

}  // namespace tandem::vector::TANDEM_ISA
