// Optimizer steps over contiguous elements. Formulas: docs/internal-operators.md.
#include "kernels/cpu/native/vector/elements.h"
#include "kernels/cpu/native/vector/parts.h"

namespace tandem::vector::TANDEM_ISA {
namespace {

using std::int64_t;

template <class Step>
void each(int64_t n, const Step& step) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) step(i);
}

// A function of an element's number that gives its gradient.
template <class T, class Use>
void with_gradient(const void* g, bool narrow, const Use& use) {
  if constexpr (sizeof(T) == sizeof(float))
    if (narrow) {
      const auto* const from = static_cast<const std::uint16_t*>(g);
      return use([=](int64_t i) { return Bfloat16::get(from + i); });
    }
  const T* const from = static_cast<const T*>(g);
  use([=](int64_t i) { return from[i]; });
}
// step(i, gradient) of each element.
template <class T, class Step>
void each_gradient(const Updated<T>& a, const Step& step) {
  with_gradient<T>(a.g, a.narrow, [&](const auto& g) { each(a.n, [=](int64_t i) { step(i, g(i)); }); });
}
// The same where the step moves the weight: its copy follows.
template <class T, class Step>
void each_weight(const Updated<T>& a, const Step& step) {
  if constexpr (sizeof(T) == sizeof(float))
    if (a.copy) {
      const float* const w = a.w;
      std::uint16_t* const copy = a.copy;
      return each_gradient(a, [=](int64_t i, T g) {
        step(i, g);
        Bfloat16::put(copy + i, w[i]);
      });
    }
  each_gradient(a, step);
}

// The gradient of the loss, cut, with the decay that is part of it.
template <class T>
struct Slope {
  T unscale, bound, decay;
  Slope(const UpdateFactors& u, bool coupled)
      : unscale(static_cast<T>(u.unscale)), bound(static_cast<T>(u.bound)), decay(static_cast<T>(coupled ? u.weight_decay : 0)) {}
  T operator()(T g, T w) const {
    T x = unscale * g;
    x = x > bound ? bound : x;
    x = x < -bound ? -bound : x;
    return x + decay * w;
  }
};

// What decoupled decay leaves of a weight.
template <class T>
T shrink_of(const UpdateFactors& u, bool decoupled) {
  return static_cast<T>(decoupled ? 1 - u.rate * u.weight_decay : 1);
}

template <class T>
T magnitude(T x) {
  return x < 0 ? -x : x;
}

template <class T>
void sgd(const Updated<T>& a, const UpdateFactors& u) {
  T *const w = a.w, *const m = a.state[0];
  const Slope<T> slope(u, true);
  const T rate = static_cast<T>(u.rate), momentum = static_cast<T>(u.momentum), rest = static_cast<T>(1 - u.dampening);
  if (m == nullptr)
    each_weight(a, [=](int64_t i, T g) { w[i] -= rate * slope(g, w[i]); });
  else if (u.nesterov)
    each_weight(a, [=](int64_t i, T g) {
      const T x = slope(g, w[i]);
      m[i] = momentum * m[i] + rest * x;
      w[i] -= rate * (x + momentum * m[i]);
    });
  else
    each_weight(a, [=](int64_t i, T g) {
      m[i] = momentum * m[i] + rest * slope(g, w[i]);
      w[i] -= rate * m[i];
    });
}

template <class T>
void rmsprop(const Updated<T>& a, const UpdateFactors& u) {
  T *const w = a.w, *const s = a.state[0], *const mean = a.state[1], *const m = a.state[2];
  const Slope<T> slope(u, true);
  const T rate = static_cast<T>(u.rate), rho = static_cast<T>(u.beta1), rest = static_cast<T>(1 - u.beta1);
  const T epsilon = static_cast<T>(u.epsilon), momentum = static_cast<T>(u.momentum);
  const auto step = [=](int64_t i, T g) {
    const T x = slope(g, w[i]);
    s[i] = rho * s[i] + rest * x * x;
    return x / (math::sqrt(s[i]) + epsilon);
  };
  const auto centered = [=](int64_t i, T g) {
    const T x = slope(g, w[i]);
    s[i] = rho * s[i] + rest * x * x;
    mean[i] = rho * mean[i] + rest * x;
    return x / (math::sqrt(s[i] - mean[i] * mean[i]) + epsilon);
  };
  const auto plain = [=](const auto& of) { each_weight(a, [=](int64_t i, T g) { w[i] -= rate * of(i, g); }); };
  const auto moving = [=](const auto& of) {
    each_weight(a, [=](int64_t i, T g) {
      m[i] = momentum * m[i] + of(i, g);
      w[i] -= rate * m[i];
    });
  };
  const auto both = [&](const auto& of) { m == nullptr ? plain(of) : moving(of); };
  mean == nullptr ? both(step) : both(centered);
}

template <class T>
void adam(const Updated<T>& a, const UpdateFactors& u) {
  T *const w = a.w, *const m = a.state[0], *const v = a.state[1], *const most = a.state[2];
  const Slope<T> slope(u, !u.decoupled);
  const T rate = static_cast<T>(u.rate / u.correction1), beta1 = static_cast<T>(u.beta1), beta2 = static_cast<T>(u.beta2);
  const T rest1 = static_cast<T>(1 - u.beta1), rest2 = static_cast<T>(1 - u.beta2), epsilon = static_cast<T>(u.epsilon);
  const T scale = static_cast<T>(1 / u.correction2), shrink = shrink_of<T>(u, u.decoupled);
  if (most == nullptr)
    each_weight(a, [=](int64_t i, T g) {
      const T x = slope(g, w[i]);
      m[i] = beta1 * m[i] + rest1 * x;
      v[i] = beta2 * v[i] + rest2 * x * x;
      w[i] = shrink * w[i] - rate * m[i] / (math::sqrt(v[i] * scale) + epsilon);
    });
  else
    each_weight(a, [=](int64_t i, T g) {
      const T x = slope(g, w[i]);
      m[i] = beta1 * m[i] + rest1 * x;
      v[i] = beta2 * v[i] + rest2 * x * x;
      most[i] = v[i] > most[i] ? v[i] : most[i];
      w[i] = shrink * w[i] - rate * m[i] / (math::sqrt(most[i] * scale) + epsilon);
    });
}

// Adam with Nesterov's momentum, whose weight grows over the steps.
template <class T>
void nadam(const Updated<T>& a, const UpdateFactors& u) {
  T *const w = a.w, *const m = a.state[0], *const v = a.state[1];
  const Slope<T> slope(u, !u.decoupled);
  const T beta1 = static_cast<T>(u.beta1), beta2 = static_cast<T>(u.beta2);
  const T rest1 = static_cast<T>(1 - u.beta1), rest2 = static_cast<T>(1 - u.beta2), epsilon = static_cast<T>(u.epsilon);
  const T scale = static_cast<T>(1 / u.correction2), shrink = shrink_of<T>(u, u.decoupled);
  const T of_slope = static_cast<T>(u.rate * u.factor1), of_mean = static_cast<T>(u.rate * u.factor2);
  each_weight(a, [=](int64_t i, T g) {
    const T x = slope(g, w[i]);
    m[i] = beta1 * m[i] + rest1 * x;
    v[i] = beta2 * v[i] + rest2 * x * x;
    w[i] = shrink * w[i] - (of_slope * x + of_mean * m[i]) / (math::sqrt(v[i] * scale) + epsilon);
  });
}

// Adam whose early steps are rectified, and are plain momentum where the variance is not known yet.
template <class T>
void radam(const Updated<T>& a, const UpdateFactors& u) {
  T *const w = a.w, *const m = a.state[0], *const v = a.state[1];
  const Slope<T> slope(u, !u.decoupled);
  const T beta1 = static_cast<T>(u.beta1), beta2 = static_cast<T>(u.beta2);
  const T rest1 = static_cast<T>(1 - u.beta1), rest2 = static_cast<T>(1 - u.beta2), epsilon = static_cast<T>(u.epsilon);
  const T shrink = shrink_of<T>(u, u.decoupled), rate = static_cast<T>(u.rate / u.correction1);
  const T rectified = static_cast<T>(u.rate / u.correction1 * u.factor1 * __builtin_sqrt(u.correction2));
  const auto moments = [=](int64_t i, T g) {
    const T x = slope(g, w[i]);
    m[i] = beta1 * m[i] + rest1 * x;
    v[i] = beta2 * v[i] + rest2 * x * x;
  };
  if (u.factor1 == 0)
    each_weight(a, [=](int64_t i, T g) {
      moments(i, g);
      w[i] = shrink * w[i] - rate * m[i];
    });
  else
    each_weight(a, [=](int64_t i, T g) {
      moments(i, g);
      w[i] = shrink * w[i] - rectified * m[i] / (math::sqrt(v[i]) + epsilon);
    });
}

template <class T>
void adagrad(const Updated<T>& a, const UpdateFactors& u) {
  T *const w = a.w, *const s = a.state[0];
  const Slope<T> slope(u, true);
  const T rate = static_cast<T>(u.rate), epsilon = static_cast<T>(u.epsilon);
  each_weight(a, [=](int64_t i, T g) {
    const T x = slope(g, w[i]);
    s[i] += x * x;
    w[i] -= rate * x / (math::sqrt(s[i]) + epsilon);
  });
}

template <class T>
void adadelta(const Updated<T>& a, const UpdateFactors& u) {
  T *const w = a.w, *const s = a.state[0], *const d = a.state[1];
  const Slope<T> slope(u, true);
  const T rate = static_cast<T>(u.rate), rho = static_cast<T>(u.beta1), rest = static_cast<T>(1 - u.beta1),
          epsilon = static_cast<T>(u.epsilon);
  each_weight(a, [=](int64_t i, T g) {
    const T x = slope(g, w[i]);
    s[i] = rho * s[i] + rest * x * x;
    const T delta = math::sqrt(d[i] + epsilon) / math::sqrt(s[i] + epsilon) * x;
    d[i] = rho * d[i] + rest * delta * delta;
    w[i] -= rate * delta;
  });
}

template <class T>
void adamax(const Updated<T>& a, const UpdateFactors& u) {
  T *const w = a.w, *const m = a.state[0], *const most = a.state[1];
  const Slope<T> slope(u, true);
  const T rate = static_cast<T>(u.rate / u.correction1), beta1 = static_cast<T>(u.beta1), beta2 = static_cast<T>(u.beta2);
  const T rest1 = static_cast<T>(1 - u.beta1), epsilon = static_cast<T>(u.epsilon);
  each_weight(a, [=](int64_t i, T g) {
    const T x = slope(g, w[i]), now = magnitude(x) + epsilon, before = beta2 * most[i];
    m[i] = beta1 * m[i] + rest1 * x;
    most[i] = before > now ? before : now;
    w[i] -= rate * m[i] / most[i];
  });
}

template <class T>
void lion(const Updated<T>& a, const UpdateFactors& u) {
  T *const w = a.w, *const m = a.state[0];
  const Slope<T> slope(u, false);
  const T rate = static_cast<T>(u.rate), beta1 = static_cast<T>(u.beta1), beta2 = static_cast<T>(u.beta2), shrink = shrink_of<T>(u, true);
  const T rest1 = static_cast<T>(1 - u.beta1), rest2 = static_cast<T>(1 - u.beta2);
  each_weight(a, [=](int64_t i, T g) {
    const T x = slope(g, w[i]), c = beta1 * m[i] + rest1 * x;
    w[i] = shrink * w[i] - rate * (c > 0 ? T{1} : c < 0 ? T{-1} : c);
    m[i] = beta2 * m[i] + rest2 * x;
  });
}

// Sums of squares in eight lanes, so that they are the same in every run and quick.
template <class T, class Value>
double sum_of_squares(int64_t n, const Value& value) {
  constexpr int64_t lanes = 8;
  double sums[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int64_t k = 0; k < lanes; ++k) {
      const double x = static_cast<double>(value(i + k));
      sums[k] += x * x;
    }
  for (; i < n; ++i) {
    const double x = static_cast<double>(value(i));
    sums[0] += x * x;
  }
  double sum = 0;
  for (const double s : sums) sum += s;
  return sum;
}

// LAMB's step before its rate, from moments that are this step's already.
template <class T>
struct LambStep {
  const T *w, *m, *v;
  T of_mean, scale, epsilon, decay;
  LambStep(const Updated<T>& a, const UpdateFactors& u)
      : w(a.w), m(a.state[0]), v(a.state[1]), of_mean(static_cast<T>(1 / u.correction1)), scale(static_cast<T>(1 / u.correction2)),
        epsilon(static_cast<T>(u.epsilon)), decay(static_cast<T>(u.weight_decay)) {}
  T operator()(int64_t i) const { return of_mean * m[i] / (math::sqrt(v[i] * scale) + epsilon) + decay * w[i]; }
};

template <class T>
void measure_lamb(const Updated<T>& a, const UpdateFactors& u, double* sums) {
  T *const w = a.w, *const m = a.state[0], *const v = a.state[1];
  const Slope<T> slope(u, false);
  const T beta1 = static_cast<T>(u.beta1), beta2 = static_cast<T>(u.beta2), rest1 = static_cast<T>(1 - u.beta1),
          rest2 = static_cast<T>(1 - u.beta2);
  each_gradient(a, [=](int64_t i, T g) {
    const T x = slope(g, w[i]);
    m[i] = beta1 * m[i] + rest1 * x;
    v[i] = beta2 * v[i] + rest2 * x * x;
  });
  sums[0] += sum_of_squares<T>(a.n, [=](int64_t i) { return w[i]; });
  sums[1] += sum_of_squares<T>(a.n, LambStep<T>(a, u));
}

template <class T>
void lamb(const Updated<T>& a, const UpdateFactors& u) {
  T* const w = a.w;
  const LambStep<T> step(a, u);
  const T rate = static_cast<T>(u.rate);
  each_weight(a, [=](int64_t i, T) { w[i] -= rate * step(i); });
}

template <class T>
void measure_lars(const Updated<T>& a, const UpdateFactors& u, double* sums) {
  const T* const w = a.w;
  const Slope<T> slope(u, false);
  sums[0] += sum_of_squares<T>(a.n, [=](int64_t i) { return w[i]; });
  with_gradient<T>(a.g, a.narrow, [&](const auto& g) { sums[1] += sum_of_squares<T>(a.n, [=](int64_t i) { return slope(g(i), w[i]); }); });
}

// The momentum holds steps, with their rates.
template <class T>
void lars(const Updated<T>& a, const UpdateFactors& u) {
  T *const w = a.w, *const m = a.state[0];
  const Slope<T> slope(u, true);
  const T rate = static_cast<T>(u.rate), momentum = static_cast<T>(u.momentum);
  if (m == nullptr)
    each_weight(a, [=](int64_t i, T g) { w[i] -= rate * slope(g, w[i]); });
  else
    each_weight(a, [=](int64_t i, T g) {
      m[i] = momentum * m[i] + rate * slope(g, w[i]);
      w[i] -= m[i];
    });
}

// What was computed elsewhere, in place of the gradient; a rate of 0: not yet.
template <class T>
void assign(const Updated<T>& a, const UpdateFactors& u) {
  T* const w = a.w;
  if (u.rate != 0) each_weight(a, [=](int64_t i, T now) { w[i] = now; });
}

template <class T>
void average(T* average, const T* w, int64_t n, double share) {
  const T of = static_cast<T>(share);
  each(n, [=](int64_t i) { average[i] += of * (w[i] - average[i]); });
}

template <class T>
double squares(const void* gradient, bool narrow, int64_t n) {
  double all = 0;
  with_gradient<T>(gradient, narrow, [&](const auto& g) { all = sum_of_squares<T>(n, g); });
  return all;
}

}  // namespace

template <class T>
const Updates<T>& updates() {
  static constexpr Updates<T> all = {
      {sgd<T>, rmsprop<T>, adam<T>, nadam<T>, radam<T>, adagrad<T>, adadelta<T>, adamax<T>, lion<T>, lamb<T>, lars<T>, assign<T>},
      {nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, measure_lamb<T>, measure_lars<T>, nullptr},
      average<T>, squares<T>};
  return all;
}
template const Updates<float>& updates<float>();
template const Updates<double>& updates<double>();

}  // namespace tandem::vector::TANDEM_ISA
