#include "kernels/cuda/bodies/loss_scale.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const FinitePartBody&, std::int64_t, void*);
template void launch(const FiniteBody&, std::int64_t, void*);
template void launch(const LossScaleBody&, std::int64_t, void*);
template void launch(const LossScaleUpdateBody&, std::int64_t, void*);
template void launch(const ScaledScalarsBody&, std::int64_t, void*);
}  // namespace tandem::cuda
