#include "kernels/cuda/bodies/recurrent.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
#define STEP_BODIES(Body, form, gates)                                           \
  template void launch(const Body<form, SmallStep<gates>>&, std::int64_t, void*);  \
  template void launch(const Body<form, MediumStep<gates>>&, std::int64_t, void*); \
  template void launch(const Body<form, LargeStep<gates>>&, std::int64_t, void*);
STEP_BODIES(RecurrentBody, StepForward::lstm, 4)
STEP_BODIES(RecurrentBody, StepForward::gru_gates, 2)
STEP_BODIES(RecurrentBody, StepForward::gru, 1)
STEP_BODIES(RecurrentBody, StepForward::gru_linear, 3)
STEP_BODIES(RecurrentBody, StepForward::rnn, 1)
STEP_BODIES(RecurrentGradientBody, StepBack::lstm, 1)
STEP_BODIES(RecurrentGradientBody, StepBack::gru, 1)
STEP_BODIES(RecurrentGradientBody, StepBack::gru_reset, 1)
STEP_BODIES(RecurrentGradientBody, StepBack::gru_linear, 1)
STEP_BODIES(RecurrentGradientBody, StepBack::rnn, 1)
STEP_BODIES(RecurrentGradientBody, StepBack::state, 1)
#undef STEP_BODIES
template void launch(const MatrixGradientBody&, std::int64_t, void*);
template void launch(const MatrixPartsBody&, std::int64_t, void*);
}  // namespace tandem::cuda
