// Optimizer updates of many tensors in one launch. Formulas: docs/internal-operators.md.
#pragma once
#include "graph/step_scalars.h"
#include "kernels/cuda/bodies/tensor_table.h"

namespace tandem::cuda {

// What the node's attributes say (graph/updates.h).
struct UpdateRule {
  UpdateKind kind = UpdateKind::sgd;
  bool nesterov = false, decoupled = false;
  double rate = 1, from = 0, weight_decay = 0, momentum = 0, dampening = 0, beta1 = 0, beta2 = 0, epsilon = 0;
  double rate_decay = 0, trust = 0, bound = 0;  // bound 0: none
};

inline constexpr int slots_of_update = 3;  // of the formula's own states

template <class T>
struct UpdateTensor {
  const void* g;  // of type T, or of 16 bits
  const T* w;
  T* new_w;
  const T *state[slots_of_update], *average;  // null where there is none
  T *new_state[slots_of_update], *new_average;
  void* copy;  // of w in 16 bits, null where there is none
  std::int64_t elements;
  bool narrow_gradient, packs;
};

template <class T>
struct UpdateTable : TensorTable<UpdateTensor<T>, 4096> {
  using TensorTable<UpdateTensor<T>, 4096>::tensors;
  UpdateRule rule;
  Narrow narrow;  // what 16 bits are
  const StepScalars* scalars;
  const double* factors;  // by tensor, two: of its rate and of its gradient; null: all 1

  TANDEM_DEVICE bool stays() const { return scalars->skip != 0; }
  template <int width>
  TANDEM_DEVICE Pack<T, width> given(int k, std::int64_t i) const {
    Pack<T, width> g;
    if (tensors[k].narrow_gradient)
      load_narrow(narrow, tensors[k].g, i, g);
    else
      g = read_at<width>(static_cast<const T*>(tensors[k].g), i);
    return g;
  }
  // The step's gradient, of the loss, cut.
  template <int width>
  TANDEM_DEVICE Pack<T, width> gradient(int k, std::int64_t i) const {
    Pack<T, width> pack = given<width>(k, i);
    const T share = static_cast<T>(scalars->clip) / static_cast<T>(scalars->loss_scale),
            factor = factors ? static_cast<T>(factors[2 * k + 1]) : T(1);
    const T bound = static_cast<T>(rule.bound);
    for (T& g : pack.v) {
      g = g * share * factor;
      if (bound > 0) g = g > bound ? bound : g < -bound ? -bound : g;
    }
    return pack;
  }
  TANDEM_DEVICE T rate_of(int k) const {
    if (static_cast<double>(scalars->epoch) < rule.from) return 0;
    double rate = static_cast<double>(scalars->learning_rate) * rule.rate;
    if (rule.rate_decay != 0) rate /= 1 + (static_cast<double>(scalars->step) - 1) * rule.rate_decay;
    return static_cast<T>(factors ? rate * factors[2 * k] : rate);
  }
  // LAMB's step before its rate, from moments that are this step's.
  TANDEM_DEVICE T lamb(T w, T m, T v) const {
    return m / static_cast<T>(scalars->correction1) / (sqrt(v / static_cast<T>(scalars->correction2)) + static_cast<T>(rule.epsilon)) +
           static_cast<T>(rule.weight_decay) * w;
  }
};

enum class Measured : std::uint8_t { gradient, lamb, lars };

// part[2·(first_part + block)] and the one behind it: sums of squares of the piece of the weight and of its step, or of the gradient
// alone. LAMB's moments are moved on.
template <class T>
struct MeasureBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = true;
  UpdateTable<T> table;
  Measured what;
  double* part;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const auto p = table.piece(t);
    const UpdateTensor<T>& a = table.tensors[p.tensor];
    const bool stays = table.stays();
    double first = 0, second = 0;
    const T beta1 = static_cast<T>(table.rule.beta1), beta2 = static_cast<T>(table.rule.beta2),
            rest1 = static_cast<T>(1 - table.rule.beta1), rest2 = static_cast<T>(1 - table.rule.beta2);
    table.template each<full_pack<T>, threads>(t, p, [&](auto width, std::int64_t i) {
      Pack<T, width> w{}, step = table.template gradient<width>(p.tensor, i);
      if (what != Measured::gradient) w = read_at<width>(a.w, i);
      if (what == Measured::lamb) {
        Pack<T, width> m = read_at<width>(a.state[0], i), v = read_at<width>(a.state[1], i);
        for (int k = 0; k < width; ++k) {
          const T g = step.v[k];
          if (!stays) m.v[k] = beta1 * m.v[k] + rest1 * g;
          if (!stays) v.v[k] = beta2 * v.v[k] + rest2 * g * g;
          step.v[k] = table.lamb(w.v[k], m.v[k], v.v[k]);
        }
        write_at(a.new_state[0], i, m);
        write_at(a.new_state[1], i, v);
      }
      for (int k = 0; k < width; ++k) {
        first += static_cast<double>(w.v[k]) * static_cast<double>(w.v[k]);
        second += static_cast<double>(step.v[k]) * static_cast<double>(step.v[k]);
      }
    });
    const auto add = [](double x, double y) { return x + y; };
    first = combine_block<threads, 0>(t, first, add);
    second = combine_block<threads, 1>(t, second, add);
    if (t.thread() != 0) return;
    part[2 * t.block()] = first;
    part[2 * t.block() + 1] = second;
  }
};

// What the norms of a tensor make of its rate, or of its gradient: one block a tensor.
template <class T>
struct TrustBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = true;
  UpdateRule rule;
  Measured what;
  double clip_norm;
  int count;
  std::int32_t first_block[tensors_a_launch + 1];  // that of the table, and where it ends
  const double* part;
  double* factors;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const std::int64_t k = t.block();
    double first = 0, second = 0;
    for (std::int64_t i = first_block[k] + t.thread(); i < first_block[k + 1]; i += threads) {
      first += part[2 * i];
      second += part[2 * i + 1];
    }
    const auto add = [](double x, double y) { return x + y; };
    first = sqrt(combine_block<threads, 0>(t, first, add));
    second = sqrt(combine_block<threads, 1>(t, second, add));
    if (t.thread() != 0) return;
    if (what == Measured::gradient) {
      const double most = clip_norm / (second + 1e-6);
      factors[2 * k] = 1;
      factors[2 * k + 1] = most < 1 ? most : 1;
      return;
    }
    const bool any = first > 0 && second > 0;
    factors[2 * k] = !any                     ? 1
                     : what == Measured::lars ? rule.trust * first / (second + rule.weight_decay * first + rule.epsilon)
                                              : first / second;
    if (clip_norm == 0) factors[2 * k + 1] = 1;  // else it stands there
  }
};

template <class T>
struct UpdateBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  UpdateTable<T> table;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const auto p = table.piece(t);
    const UpdateTensor<T>& a = table.tensors[p.tensor];
    const bool stays = table.stays(), moved = table.rule.kind == UpdateKind::lamb;  // its states have been moved on
    const T rate = table.rate_of(p.tensor);
    const StepScalars s = *table.scalars;
    table.template each<full_pack<T>, threads>(t, p, [&](auto width, std::int64_t i) {
      Pack<T, width> w = read_at<width>(a.w, i), state[slots_of_update];
      for (int j = 0; j < slots_of_update; ++j)
        if (a.state[j]) state[j] = read_at<width>(moved ? a.new_state[j] : a.state[j], i);
      if (!stays) {
        const Pack<T, width> g =
            table.rule.kind == UpdateKind::assign ? table.template given<width>(p.tensor, i) : table.template gradient<width>(p.tensor, i);
        for (int k = 0; k < width; ++k) {
          T own[slots_of_update];
          for (int j = 0; j < slots_of_update; ++j) own[j] = a.state[j] ? state[j].v[k] : T{};
          w.v[k] = update(a, s, w.v[k], g.v[k], own, rate);
          for (int j = 0; j < slots_of_update; ++j) state[j].v[k] = own[j];
        }
      }
      write_at(a.new_w, i, w);
      for (int j = 0; j < slots_of_update; ++j)
        if (a.state[j] && !moved) write_at(a.new_state[j], i, state[j]);
      if (a.copy) store_narrow(table.narrow, a.copy, i, w);
      if (!a.average) return;
      Pack<T, width> average = read_at<width>(a.average, i);
      for (int k = 0; k < width; ++k)
        if (!stays) average.v[k] += static_cast<T>(s.average) * (w.v[k] - average.v[k]);
      write_at(a.new_average, i, average);
    });
  }

 private:
  // The new weight; the element's states are moved on. A table: a case for each optimizer.
  TANDEM_DEVICE T update(const UpdateTensor<T>& a, const StepScalars& s, T w, T g, T (&state)[slots_of_update], T rate) const {
    const UpdateRule& n = table.rule;
    const T decay = static_cast<T>(n.weight_decay), epsilon = static_cast<T>(n.epsilon), momentum = static_cast<T>(n.momentum);
    const T beta1 = static_cast<T>(n.beta1), beta2 = static_cast<T>(n.beta2), rest1 = static_cast<T>(1 - n.beta1),
            rest2 = static_cast<T>(1 - n.beta2);
    const T correction1 = static_cast<T>(s.correction1), correction2 = static_cast<T>(s.correction2);
    if (n.kind == UpdateKind::assign) return static_cast<double>(s.epoch) < n.from ? w : g;
    if (n.kind == UpdateKind::lamb) return w - rate * table.lamb(w, state[0], state[1]);
    if (n.decoupled || n.kind == UpdateKind::lion)
      w -= rate * decay * w;
    else
      g += decay * w;
    const T one = state[0], two = state[1], three = state[2];
    const auto keep_one = [&](T x) { return state[0] = x; };
    const auto keep_two = [&](T x) { return state[1] = x; };
    switch (n.kind) {
      case UpdateKind::sgd: {
        if (!a.state[0]) return w - rate * g;
        const T m = keep_one(momentum * one + (s.step <= 1 ? T{1} : static_cast<T>(1 - n.dampening)) * g);
        return w - rate * (n.nesterov ? g + momentum * m : m);
      }
      case UpdateKind::rmsprop: {
        const T square = keep_one(beta1 * one + rest1 * g * g), mean = a.state[1] ? keep_two(beta1 * two + rest1 * g) : T{};
        T step = g / (sqrt(square - mean * mean) + epsilon);
        if (a.state[2]) state[2] = step = momentum * three + step;
        return w - rate * step;
      }
      case UpdateKind::adam: {
        const T m = keep_one(beta1 * one + rest1 * g);
        T v = keep_two(beta2 * two + rest2 * g * g);
        if (a.state[2]) state[2] = v = v > three ? v : three;
        return w - rate * (m / correction1) / (sqrt(v / correction2) + epsilon);
      }
      case UpdateKind::nadam: {
        const T m = keep_one(beta1 * one + rest1 * g), v = keep_two(beta2 * two + rest2 * g * g);
        return w - rate * (static_cast<T>(s.factor1) * g + static_cast<T>(s.factor2) * m) / (sqrt(v / correction2) + epsilon);
      }
      case UpdateKind::radam: {
        const T m = keep_one(beta1 * one + rest1 * g), v = keep_two(beta2 * two + rest2 * g * g);
        if (s.factor1 == 0) return w - rate * (m / correction1);
        return w - rate * (m / correction1) * static_cast<T>(s.factor1) * sqrt(correction2) / (sqrt(v) + epsilon);
      }
      case UpdateKind::adagrad: return w - rate * g / (sqrt(keep_one(one + g * g)) + epsilon);
      case UpdateKind::adadelta: {
        const T square = keep_one(beta1 * one + rest1 * g * g), delta = sqrt(two + epsilon) / sqrt(square + epsilon) * g;
        keep_two(beta1 * two + rest1 * delta * delta);
        return w - rate * delta;
      }
      case UpdateKind::adamax: {
        const T m = keep_one(beta1 * one + rest1 * g), now = (g < 0 ? -g : g) + epsilon, before = beta2 * two;
        return w - rate / correction1 * m / keep_two(before > now ? before : now);
      }
      case UpdateKind::lion: {
        const T c = beta1 * one + rest1 * g;
        keep_one(beta2 * one + rest2 * g);
        return w - rate * (c > 0 ? T{1} : c < 0 ? T{-1} : c);
      }
      case UpdateKind::lars: {
        const T step = rate * g;
        return w - (a.state[0] ? keep_one(momentum * one + step) : step);
      }
      case UpdateKind::lamb:
      case UpdateKind::assign:
      case UpdateKind::adam_hat: break;
    }
    return w;
  }
};

// part[first_part + block]: sum of squares of the block's piece of one gradient.
struct SquaresBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = true;
  struct Tensor {
    const void* g;
    std::int64_t elements;
    bool narrow, packs;  // narrow: g has 16 bits
  };
  Narrow type;
  TensorTable<Tensor, 8192> table;
  double* part;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const auto p = table.piece(t);
    const Tensor& a = table.tensors[p.tensor];
    double squares = 0;
    table.each<4, threads>(t, p, [&](auto width, std::int64_t i) {
      Pack<float, width> g;
      if (a.narrow)
        load_narrow(type, a.g, i, g);
      else
        g = read_at<width>(static_cast<const float*>(a.g), i);
      for (int k = 0; k < width; ++k) {
        const double x = static_cast<double>(g.v[k]);
        squares += x * x;
      }
    });
    squares = combine_block<threads, 0>(t, squares, [](double x, double y) { return x + y; });
    if (t.thread() == 0) part[t.block()] = squares;
  }
};

// The norm of all, and what it makes of the scalars; in one block.
struct ClipScalarsBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = true;
  const StepScalars* scalars;
  StepScalars* now;
  const double* part;
  std::int64_t parts;
  double limit;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    double squares = 0;
    for (std::int64_t i = t.thread(); i < parts; i += threads) squares += part[i];
    squares = combine_block<threads, 0>(t, squares, [](double x, double y) { return x + y; });
    if (t.thread() != 0) return;
    StepScalars s = *scalars;
    const double norm = sqrt(squares) / static_cast<double>(s.loss_scale), most = limit / (norm + 1e-6);
    if (most < 1) s.clip = static_cast<float>(most);  // false for what is not finite: such a step is skipped
    *now = s;
  }
};

}  // namespace tandem::cuda
