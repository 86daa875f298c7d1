// The numbers of a training step that are the same for all parameters, as the runtime, the updates and their kernels on every
// device hold them: the graph input tandem.scalars is a StepScalars read as float32[StepScalars::count].
#pragma once

namespace tandem {

struct StepScalars {
  float learning_rate = 0;
  float step = 0;         // t, from 1
  float correction1 = 1;  // 1 − β1ᵗ
  float correction2 = 1;  // 1 − β2ᵗ
  float loss_scale = 1;   // gradients are of the loss times this
  float skip = 0;         // not 0: parameters and their states stay as they are
  float unused[2] = {};
  static constexpr int count = 8;
};
static_assert(sizeof(StepScalars) == StepScalars::count * sizeof(float));

// What dynamic loss scaling carries from step to step, a state of the graph read as float32[LossScaleState::count].
struct LossScaleState {
  float exponent = 0;  // of two, over the scale's start
  float good = 0;      // steps since it last changed
  float skipped = 0;   // steps so far
  static constexpr int count = 3;
};
static_assert(sizeof(LossScaleState) == LossScaleState::count * sizeof(float));

}  // namespace tandem
