#include "kernels/cuda/bodies/bias.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const BiasBody<float>&, std::int64_t, void*);
template void launch(const BiasBody<double>&, std::int64_t, void*);
template void launch(const BiasBody<Half>&, std::int64_t, void*);
template void launch(const BiasBody<BFloat16>&, std::int64_t, void*);
template void launch(const MaskBody<float>&, std::int64_t, void*);
template void launch(const MaskBody<double>&, std::int64_t, void*);
template void launch(const MaskBody<Half>&, std::int64_t, void*);
template void launch(const MaskBody<BFloat16>&, std::int64_t, void*);
}  // namespace tandem::cuda
