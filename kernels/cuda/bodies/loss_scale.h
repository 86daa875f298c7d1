// Dynamic loss scaling (graph/operators/loss_scale.cpp): whether gradients are finite, and the state that follows.
#pragma once
#include "graph/step_scalars.h"
#include "kernels/cuda/bodies/tensor_table.h"

#if !defined(__CUDACC__)
#include <math.h>
#endif

namespace tandem::cuda {

// part[first_part + block] = 1 where the block's piece of one tensor is finite, else 0.
struct FinitePartBody {
  static constexpr int threads = 256;
  static constexpr bool cooperative = true;
  struct Tensor {
    const void* x;  // of float32, or of 16 bits
    std::int64_t elements;
    bool narrow, packs;
  };
  TensorTable<Tensor, 8192> table;
  Narrow type;
  std::int64_t first_part;
  float* part;

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread& t) const {
    const auto p = table.piece(t);
    const Tensor& tensor = table.tensors[p.tensor];
    float finite = 1;
    const auto see = [&](const auto& pack) {
      for (const float x : pack.v)
        if (x - x != 0) finite = 0;  // NaN for infinities and NaN
    };
    if (tensor.narrow)
      table.each<8, threads>(t, p, [&](auto width, std::int64_t i) {
        Pack<float, width> x;
        load_narrow(type, tensor.x, i, x);
        see(x);
      });
    else
      table.each<4, threads>(t, p, [&](auto width, std::int64_t i) { see(read_at<width>(static_cast<const float*>(tensor.x), i)); });
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

  template <class Thread>
  TANDEM_DEVICE void operator()(const Thread&) const {
    LossScaleState s = *state;
    s.good += 1;
    if (*finite == 0) {
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
