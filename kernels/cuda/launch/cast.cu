#include "kernels/cuda/bodies/cast.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const CastBody&, std::int64_t, void*);
}  // namespace tandem::cuda
