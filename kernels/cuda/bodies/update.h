// Optimizer updates of many tensors in one launch. The table of tensors travels as the kernel's argument; a block takes one piece
// of one tensor. Formulas: docs/internal-operators.md.
#pragma once
#include "graph/step_scalars.h"
#include "kernels/cuda/bodies/narrow.h"
#include "kernels/cuda/bodies/thread.h"

namespace tandem::cuda {

// What the node's attributes say (graph/updates.h).
struct UpdateRule {
  UpdateKind kind = UpdateKind::sgd;
  bool nesterov = false, decoupled = false, always = false;
  double rate = 1, from = 0, weight_decay = 0, momentum = 0, dampening = 0, beta1 = 0, beta2 = 0, epsilon = 0;
  double rate_decay = 0, trust = 0, bound = 0;  // bound 0: none
};

inline constexpr int slots_of_update = 3;  // of the formula's own states

template <class T>
struct UpdateTensor {
  const void* g;  // of type T, or of 16 bits
  const T* w;
  T* new_w;
  const T *state[slots_of_update], *sum, *average;  // null where there is none
  T *new_state[slots_of_update], *new_sum, *new_average;
  void* copy;  // of w in 16 bits, null where there is none
  std::int64_t elements;
};

inline constexpr int tensors_a_launch = 24;
inline constexpr std::int64_t update_piece = 4096;  // elements of a block

template <class T>
struct UpdateTable {
  UpdateRule rule;
  Narrow narrow;                   // what 16 bits are
  std::uint64_t narrow_gradients;  // by tensor, a bit
  const StepScalars* scalars;
  const double* factors;           // by tensor, two: of its rate and of its gradient; null: all 1
  int count;
  std::int32_t first_block[tensors_a_launch];
  UpdateTensor<T> tensors[tensors_a_launch];

  struct Piece {
    int tensor;
    std::int64_t begin, end;
  };
  template <class Thread>
  TANDEM_DEVICE Piece piece(const Thread& t) const {
    int k = 0;
    while (k + 1 < count && t.block() >= first_block[k + 1]) ++k;
    const std::int64_t begin = (t.block() - first_block[k]) * update_piece, elements = tensors[k].elements;
    return {k, begin, begin + update_piece < elements ? begin + update_piece : elements};
  }
  TANDEM_DEVICE bool stays() const { return (scalars->skip != 0 || scalars->hold != 0) && !rule.always; }
  TANDEM_DEVICE T given(int k, std::int64_t i) const {
    return (narrow_gradients >> k & 1) != 0 ? static_cast<T>(load_narrow(narrow, tensors[k].g, i)) : static_cast<const T*>(tensors[k].g)[i];
  }
  // The step's gradient, of the loss, cut.
  TANDEM_DEVICE T gradient(int k, std::int64_t i) const {
    T g = (tensors[k].new_sum ? tensors[k].new_sum[i] : given(k, i)) * (static_cast<T>(scalars->clip) / static_cast<T>(scalars->loss_scale));
    if (factors) g *= static_cast<T>(factors[2 * k + 1]);
    const T bound = static_cast<T>(rule.bound);
    return bound > 0 ? (g > bound ? bound : g < -bound ? -bound : g) : g;
  }
  TANDEM_DEVICE T rate_of(int k) const {
    if (static_cast<double>(scalars->epoch) < rule.from) return 0;
    double rate = static_cast<double>(scalars->learning_rate) * rule.rate;
    if (rule.rate_decay != 0) rate /= 1 + (static_cast<double>(scalars->step) - 1) * rule.rate_decay;
    return static_cast<T>(factors ? rate * factors[2 * k] : rate);
  }
  // LAMB's step before its rate, from moments that are this step's.
  TANDEM_DEVICE T lamb(T w, T m, T v) const {
    return m / static_cast<T>(scalars->correction1) / (sqrt(v / static_cast<T>(scalars->correction2)) + static_cast<T>(rule.epsilon)) + static_cast<T>(rule.weight_decay) * w;
  }
};

// sum = fresh ? share·g : sum + share·g
template <class T>
struct AccumulateBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  UpdateTable<T> table;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const auto p = table.piece(t);
    const UpdateTensor<T>& a = table.tensors[p.tensor];
    const T share = static_cast<T>(table.scalars->share);
    const bool fresh = table.scalars->fresh != 0;
    for (std::int64_t i = p.begin + t.thread(); i < p.end; i += threads) a.new_sum[i] = (fresh ? T{} : a.sum[i]) + share * table.given(p.tensor, i);
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
    for (std::int64_t i = p.begin + t.thread(); i < p.end; i += threads) {
      T step = 0;
      if (what == Measured::lamb) {
        const T g = table.gradient(p.tensor, i);
        const T m = stays ? a.state[0][i] : static_cast<T>(table.rule.beta1) * a.state[0][i] + static_cast<T>(1 - table.rule.beta1) * g;
        const T v = stays ? a.state[1][i] : static_cast<T>(table.rule.beta2) * a.state[1][i] + static_cast<T>(1 - table.rule.beta2) * g * g;
        a.new_state[0][i] = m;
        a.new_state[1][i] = v;
        step = table.lamb(a.w[i], m, v);
      } else {
        step = table.gradient(p.tensor, i);
      }
      first += what == Measured::gradient ? 0 : static_cast<double>(a.w[i]) * static_cast<double>(a.w[i]);
      second += static_cast<double>(step) * static_cast<double>(step);
    }
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
  std::int32_t first_block[tensors_a_launch + 1];
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
    factors[2 * k] = !any ? 1 : what == Measured::lars ? rule.trust * first / (second + rule.weight_decay * first + rule.epsilon) : first / second;
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
    const bool stays = table.stays();
    const T rate = table.rate_of(p.tensor);
    for (std::int64_t i = p.begin + t.thread(); i < p.end; i += threads) {
      const T w = stays ? keep(a, i) : update(a, i, table.gradient(p.tensor, i), rate);
      a.new_w[i] = w;
      if (a.copy) store_narrow(table.narrow, a.copy, i, static_cast<float>(w));
      if (a.average) a.new_average[i] = stays ? a.average[i] : a.average[i] + static_cast<T>(table.scalars->average) * (w - a.average[i]);
    }
  }

 private:
  TANDEM_DEVICE T keep(const UpdateTensor<T>& a, std::int64_t i) const {
    for (int k = 0; k < slots_of_update; ++k)
      if (a.state[k]) a.new_state[k][i] = a.state[k][i];
    return a.w[i];
  }
  TANDEM_DEVICE T update(const UpdateTensor<T>& a, std::int64_t i, T g, T rate) const {
    const UpdateRule& n = table.rule;
    const StepScalars& s = *table.scalars;
    const T decay = static_cast<T>(n.weight_decay), epsilon = static_cast<T>(n.epsilon), momentum = static_cast<T>(n.momentum);
    const T beta1 = static_cast<T>(n.beta1), beta2 = static_cast<T>(n.beta2), rest1 = static_cast<T>(1 - n.beta1), rest2 = static_cast<T>(1 - n.beta2);
    const T correction1 = static_cast<T>(s.correction1), correction2 = static_cast<T>(s.correction2);
    T w = a.w[i];
    if (n.kind == UpdateKind::assign) return static_cast<double>(s.epoch) < n.from ? w : static_cast<const T*>(a.g)[i];
    if (n.kind == UpdateKind::lamb) return w - rate * table.lamb(w, a.new_state[0][i], a.new_state[1][i]);
    if (n.decoupled || n.kind == UpdateKind::lion)
      w -= rate * decay * w;
    else
      g += decay * w;
    const T one = a.state[0] ? a.state[0][i] : T{}, two = a.state[1] ? a.state[1][i] : T{}, three = a.state[2] ? a.state[2][i] : T{};
    const auto keep_one = [&](T x) { return a.new_state[0][i] = x; };
    const auto keep_two = [&](T x) { return a.new_state[1][i] = x; };
    switch (n.kind) {
      case UpdateKind::sgd: {
        if (!a.state[0]) return w - rate * g;
        const T m = keep_one(momentum * one + (s.step <= 1 ? T{1} : static_cast<T>(1 - n.dampening)) * g);
        return w - rate * (n.nesterov ? g + momentum * m : m);
      }
      case UpdateKind::rmsprop: {
        const T square = keep_one(beta1 * one + rest1 * g * g), mean = a.state[1] ? keep_two(beta1 * two + rest1 * g) : T{};
        T step = g / (sqrt(square - mean * mean) + epsilon);
        if (a.state[2]) a.new_state[2][i] = step = momentum * three + step;
        return w - rate * step;
      }
      case UpdateKind::adam: {
        const T m = keep_one(beta1 * one + rest1 * g);
        T v = keep_two(beta2 * two + rest2 * g * g);
        if (a.state[2]) a.new_state[2][i] = v = v > three ? v : three;
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
      case UpdateKind::assign: break;
    }
    return w;
  }
};

// part[first_part + block]: sum of squares of the block's piece of one gradient, or of what it and the sum of those before come to.
struct SquaresBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = true;
  struct Tensor {
    const void* g;
    const float* sum;
    std::int64_t elements;
  };
  const StepScalars* scalars;
  Narrow type;
  std::uint64_t narrow;  // by tensor, a bit: it has 16 bits
  int count;
  std::int32_t first_block[tensors_a_launch];
  Tensor tensors[tensors_a_launch];
  double* part;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    int k = 0;
    while (k + 1 < count && t.block() >= first_block[k + 1]) ++k;
    const Tensor& a = tensors[k];
    const std::int64_t begin = (t.block() - first_block[k]) * update_piece, end = begin + update_piece < a.elements ? begin + update_piece : a.elements;
    const bool added = a.sum && scalars->fresh == 0;
    double squares = 0;
    for (std::int64_t i = begin + t.thread(); i < end; i += threads) {
      const float g = (narrow >> k & 1) != 0 ? load_narrow(type, a.g, i) : static_cast<const float*>(a.g)[i];
      const double x = static_cast<double>(added ? a.sum[i] + scalars->share * g : g);
      squares += x * x;
    }
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
    if (s.hold == 0 && most < 1) s.clip = static_cast<float>(most);  // false for what is not finite: such a step is skipped
    *now = s;
  }
};

}  // namespace tandem::cuda
