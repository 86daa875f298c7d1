// Dynamic loss scaling (graph/operators/loss_scale.cpp): whether gradients are finite, and the state that follows.
#pragma once
#include "graph/step_scalars.h"
#include "kernels/cuda/bodies/narrow.h"
#include "kernels/cuda/bodies/thread.h"

#if !defined(__CUDACC__)
#include <math.h>
#endif

namespace tandem::cuda {

inline constexpr int finite_tensors_a_launch = 48;
inline constexpr std::int64_t finite_piece = 8192;  // elements of a block

// part[first_part + block] = 1 where the block's piece of one tensor is finite, else 0.
struct FinitePartBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = true;
  struct Tensor {
    const void* x;  // of float32, or of 16 bits
    std::int64_t elements;
  };
  int count;
  Narrow type;
  std::uint64_t narrow;  // by tensor, a bit: it has 16 bits
  std::int32_t first_block[finite_tensors_a_launch];
  Tensor tensors[finite_tensors_a_launch];
  std::int64_t first_part;
  float* part;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    int k = 0;
    while (k + 1 < count && t.block() >= first_block[k + 1]) ++k;
    const Tensor& tensor = tensors[k];
    const std::int64_t begin = (t.block() - first_block[k]) * finite_piece;
    const std::int64_t end = begin + finite_piece < tensor.elements ? begin + finite_piece : tensor.elements;
    float finite = 1;
    for (std::int64_t i = begin + t.thread(); i < end; i += threads) {
      const float x = (narrow >> k & 1) != 0 ? load_narrow(type, tensor.x, i) : static_cast<const float*>(tensor.x)[i];
      if (x - x != 0) finite = 0;  // NaN for infinities and NaN
    }
    finite = combine_block<threads, 0>(t, finite, [](float a, float b) { return a < b ? a : b; });
    if (t.thread() == 0) part[first_part + t.block()] = finite;
  }
};

// The least of all parts, in one block.
struct FiniteBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = true;
  const float* part;
  std::int64_t parts;
  float* finite;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    float least = 1;
    for (std::int64_t i = t.thread(); i < parts; i += threads) least = part[i] < least ? part[i] : least;
    least = combine_block<threads, 0>(t, least, [](float a, float b) { return a < b ? a : b; });
    if (t.thread() == 0) *finite = least;
  }
};

// scale = start · 2^state.exponent
struct LossScaleBody {
  static constexpr int threads = 1;
  static constexpr bool cooperative = false;
  const LossScaleState* state;
  float* scale;
  float start;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread&) const {
    *scale = ldexpf(start, static_cast<int>(state->exponent));
  }
};

struct LossScaleUpdateBody {
  static constexpr int threads = 1;
  static constexpr bool cooperative = false;
  const LossScaleState* state;
  const float* finite;
  LossScaleState* now;
  float interval;
  const StepScalars* scalars;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread&) const {
    LossScaleState s = *state;
    s.good += 1;
    if (scalars->hold != 0) {
      s = *state;
    } else if (*finite == 0) {
      s.exponent -= 1;
      s.skipped += 1;
      s.good = 0;
    } else if (s.good >= interval) {
      s.exponent += 1;
      s.good = 0;
    }
    *now = s;
  }
};

struct ScaledScalarsBody {
  static constexpr int threads = 1;
  static constexpr bool cooperative = false;
  const StepScalars* scalars;
  const LossScaleState* state;
  const float* finite;
  StepScalars* now;
  float start;
  UpdateKind kind;
  double beta1, beta2;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread&) const {
    const double steps = static_cast<double>(scalars->step) - static_cast<double>(state->skipped), t = steps < 1 ? 1 : steps;
    StepScalars s = *scalars;
    set_step(s, kind, t, beta1, beta2);
    s.loss_scale = ldexpf(start, static_cast<int>(state->exponent));
    s.skip = *finite == 0 ? 1.0F : 0.0F;
    *now = s;
  }
};

}  // namespace tandem::cuda
