#include "kernels/cuda/bodies/cast.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const CastBody&, std::int64_t, void*);
template void launch(const FloatCastBody<float, Half>&, std::int64_t, void*);
template void launch(const FloatCastBody<float, BFloat16>&, std::int64_t, void*);
template void launch(const FloatCastBody<Half, float>&, std::int64_t, void*);
template void launch(const FloatCastBody<BFloat16, float>&, std::int64_t, void*);
}  // namespace tandem::cuda
