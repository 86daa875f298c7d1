// Runs a fused elementwise program element by element: the way that needs no compiler at run time. Operands broadcast to
// the outputs' shape; the outputs share one packed layout, in whose order elements are counted.
#pragma once
#include <cstdint>

#if !defined(__CUDACC__)
#include <math.h>  // the functions in the global namespace, as on the device
#endif
#include "kernels/cuda/bodies/types.h"
#include "kernels/cuda/bodies/elementwise_operators.h"
#include "kernels/cuda/bodies/index.h"

namespace tandem::cuda {

inline constexpr int max_inputs = 16, max_outputs = 8, max_instructions = 64;

struct Instruction {
  Function function;
  std::uint8_t a, b;  // operands
  float p, q;
};

enum class Walk : std::uint8_t { along, repeated, strided };  // an input's element for output element i: i, 0, by the nest

template <class T>
struct ElementwiseBody {
  static constexpr int threads = 128;
  static constexpr bool cooperative = false;

  std::int64_t elements;
  int inputs, outputs, instructions;
  const T* in[max_inputs];
  T* out[max_outputs];
  std::uint8_t results[max_outputs];
  Walk walks[max_inputs];
  Instruction program[max_instructions];
  Nest<max_inputs> nest;
  bool any_strided;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    // Integers compute in 64 bits.
    using C = std::conditional_t<std::is_same_v<T, std::uint64_t>, unsigned long long,
                                 std::conditional_t<std::is_integral_v<T>, long long, Compute<T>>>;
    for (std::int64_t i = t.block() * threads + t.thread(); i < elements; i += t.blocks() * threads) {
      C values[max_inputs + max_instructions];
      std::int64_t offsets[max_inputs];
      if (any_strided) nest.offsets(static_cast<std::uint32_t>(i), offsets);
      for (int k = 0; k < inputs; ++k) {
        const std::int64_t at = walks[k] == Walk::along ? i : walks[k] == Walk::repeated ? 0 : offsets[k];
        values[k] = static_cast<C>(load(in[k][at]));
      }
      for (int j = 0; j < instructions; ++j) {
        const Instruction& s = program[j];
        if constexpr (std::is_integral_v<T>)
          values[inputs + j] = static_cast<T>(apply_integer(s.function, values[s.a], values[s.b]));
        else
          values[inputs + j] = apply_real<C>(s.function, values[s.a], values[s.b], static_cast<C>(s.p), static_cast<C>(s.q));
      }
      for (int k = 0; k < outputs; ++k) {
        if constexpr (std::is_integral_v<T>)
          out[k][i] = static_cast<T>(values[results[k]]);
        else
          out[k][i] = store<T>(values[results[k]]);
      }
    }
  }
};

}  // namespace tandem::cuda
