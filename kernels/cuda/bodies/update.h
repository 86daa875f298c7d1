// Optimizer updates of many tensors in one launch. The table of tensors travels as the kernel's
// argument; a block takes one piece of one tensor.
#pragma once
#include "graph/step_scalars.h"
#include "kernels/cuda/bodies/narrow.h"

#if !defined(__CUDACC__)
#include <math.h>
#endif

namespace tandem::cuda {

enum class Optimizer : std::uint8_t { sgd, adam, rmsprop };

struct UpdateNumbers {
  Optimizer optimizer = Optimizer::sgd;
  bool nesterov = false, decoupled = false;
  double momentum = 0, weight_decay = 0, beta1 = 0, beta2 = 0, rho = 0, epsilon = 0;
};

template <class T>
struct UpdateTensor {
  const T* w;
  const void* g;            // of type T, or of 16 bits
  const T *first, *second;  // states, null where there is none
  T *new_w, *new_first, *new_second;
  void* copy;  // of w in 16 bits, null where there is none
  std::int64_t elements;
};

inline constexpr int tensors_a_launch = 48;
inline constexpr std::int64_t update_piece = 4096;  // elements of a block

template <class T>
struct UpdateBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = false;
  UpdateNumbers n;
  Narrow narrow;                   // what 16 bits are
  std::uint64_t narrow_gradients;  // by tensor, a bit
  const StepScalars* scalars;
  int count;
  std::int32_t first_block[tensors_a_launch];
  UpdateTensor<T> tensors[tensors_a_launch];

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    int k = 0;
    while (k + 1 < count && t.block() >= first_block[k + 1]) ++k;
    const UpdateTensor<T>& tensor = tensors[k];
    const std::int64_t begin = (t.block() - first_block[k]) * update_piece;
    const std::int64_t end = begin + update_piece < tensor.elements ? begin + update_piece : tensor.elements;
    const bool skip = scalars->skip != 0;
    for (std::int64_t i = begin + t.thread(); i < end; i += threads) {
      const T g = (narrow_gradients >> k & 1) != 0 ? static_cast<T>(load_narrow(narrow, tensor.g, i)) : static_cast<const T*>(tensor.g)[i];
      const T w = skip ? keep(tensor, i) : update(tensor, i, g);
      tensor.new_w[i] = w;
      if (tensor.copy) store_narrow(narrow, tensor.copy, i, static_cast<float>(w));
    }
  }

 private:
  TANDEM_DEVICE T keep(const UpdateTensor<T>& a, std::int64_t i) const {
    if (a.first) a.new_first[i] = a.first[i];
    if (a.second) a.new_second[i] = a.second[i];
    return a.w[i];
  }
  TANDEM_DEVICE T update(const UpdateTensor<T>& a, std::int64_t i, T g) const {
    const T rate = static_cast<T>(scalars->learning_rate);
    T w = a.w[i];
    g /= static_cast<T>(scalars->loss_scale);
    if (n.optimizer == Optimizer::adam && n.decoupled)
      w -= rate * static_cast<T>(n.weight_decay) * w;
    else
      g += static_cast<T>(n.weight_decay) * w;
    switch (n.optimizer) {
      case Optimizer::sgd: {
        T step = g;
        if (a.first) {
          const T m = static_cast<T>(n.momentum) * a.first[i] + g;
          a.new_first[i] = m;
          step = n.nesterov ? g + static_cast<T>(n.momentum) * m : m;
        }
        w -= rate * step;
        break;
      }
      case Optimizer::adam: {
        const T m = static_cast<T>(n.beta1) * a.first[i] + static_cast<T>(1 - n.beta1) * g;
        const T v = static_cast<T>(n.beta2) * a.second[i] + static_cast<T>(1 - n.beta2) * g * g;
        a.new_first[i] = m;
        a.new_second[i] = v;
        w -= rate * (m / static_cast<T>(scalars->correction1)) / (sqrt(v / static_cast<T>(scalars->correction2)) + static_cast<T>(n.epsilon));
        break;
      }
      case Optimizer::rmsprop: {
        const T s = static_cast<T>(n.rho) * a.first[i] + static_cast<T>(1 - n.rho) * g * g;
        a.new_first[i] = s;
        T step = g / (sqrt(s) + static_cast<T>(n.epsilon));
        if (a.second) {
          step += static_cast<T>(n.momentum) * a.second[i];
          a.new_second[i] = step;
        }
        w -= rate * step;
        break;
      }
    }
    return w;
  }
};

}  // namespace tandem::cuda
