#include "kernels/cuda/bodies/pitch.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const PitchBody<std::uint16_t>&, std::int64_t, void*);
}  // namespace tandem::cuda
