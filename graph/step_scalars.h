// The numbers of a training step that are the same for all parameters, as the runtime, the updates and their kernels on every
// device hold them: the graph input tandem.scalars is a StepScalars read as float32[StepScalars::count].
#pragma once
#include <math.h>

#include <cstdint>

#if defined(__CUDACC__)
#define TANDEM_EVERYWHERE __host__ __device__
#else
#define TANDEM_EVERYWHERE
#endif

namespace tandem {

// The formulas that weights are updated by; docs/internal-operators.md has them.
enum class UpdateKind : std::uint8_t { sgd, rmsprop, adam, nadam, radam, adagrad, adadelta, adamax, lion, lamb, lars, assign,
                                  adam_hat };  // adam, as far as the scalars go: epsilon is not corrected
inline constexpr int update_kinds = 12;  // that have kernels

struct StepScalars {
  float learning_rate = 0;
  float step = 0;         // t, from 1
  float correction1 = 1;  // 1 − β1ᵗ
  float correction2 = 1;  // 1 − β2ᵗ
  float loss_scale = 1;   // gradients are of the loss times this
  float skip = 0;         // not 0: parameters and their states stay as they are
  float factor1 = 0;      // nadam: of the gradient, (1−μₜ)/(1−Πμ); radam: rectification, 0 where there is none
  float factor2 = 0;      // nadam: of the mean, μₜ₊₁/(1−Πμ·μₜ₊₁)
  float clip = 1;         // what all gradients are multiplied by: less than 1 where their norm is above its limit
  float epoch = 0;        // from 0: a group of parameters may start later
  float average = 0;      // how far averages of the parameters move towards them: 1 takes them as they are
  float unused[5] = {};
  static constexpr int count = 16;
};
static_assert(sizeof(StepScalars) == StepScalars::count * sizeof(float));

// What the formulas take of the step's number.
TANDEM_EVERYWHERE inline void set_step(StepScalars& s, UpdateKind kind, double t, double beta1, double beta2) {
  s.step = static_cast<float>(t);
  s.correction1 = static_cast<float>(1 - pow(beta1, t));
  s.correction2 = static_cast<float>(1 - pow(beta2, t));
  if (kind == UpdateKind::adam_hat) {  // the correction of the root is the rate's
    s.correction1 = t < 1 ? 1.0F : static_cast<float>((1 - pow(beta1, t)) / sqrt(1 - pow(beta2, t)));
    s.correction2 = 1;
  }
  if (kind == UpdateKind::radam) {
    const double least = 2 / (1 - beta2) - 1, power = pow(beta2, t), rho = least - 2 * t * power / (1 - power);
    s.factor1 = rho > 5 ? static_cast<float>(sqrt((rho - 4) * (rho - 2) * least / ((least - 4) * (least - 2) * rho))) : 0.0F;
  }
  if (kind != UpdateKind::nadam) return;
  // μᵢ = β1·(1 − ½qⁱ), q = 0.96^0.004. log Πμ = t·log β1 + Σᵢ log(1 − ½qⁱ), where log(1 − x) = −Σₖ xᵏ/k, and the sum of
  // (½qⁱ)ᵏ over i is that of a geometric series: 60 terms whatever t is.
  const double q = pow(0.96, 0.004);
  double log_product = beta1 > 0 ? t * log(beta1) : -HUGE_VAL, half = 1;
  for (int k = 1; k <= 60; ++k) {
    half *= 0.5;
    const double qk = pow(q, k);
    log_product -= half / k * qk * (1 - pow(qk, t)) / (1 - qk);
  }
  const double product = exp(log_product), mu = beta1 * (1 - 0.5 * pow(q, t)), next = beta1 * (1 - 0.5 * pow(q, t + 1));
  s.factor1 = static_cast<float>((1 - mu) / (1 - product));
  s.factor2 = static_cast<float>(next / (1 - product * next));
}

// What dynamic loss scaling carries from step to step, a state of the graph read as float32[LossScaleState::count].
struct LossScaleState {
  float exponent = 0;  // of two, over the scale's start
  float good = 0;      // steps since it last changed
  float skipped = 0;   // steps so far
  static constexpr int count = 3;
};
static_assert(sizeof(LossScaleState) == LossScaleState::count * sizeof(float));

}  // namespace tandem
