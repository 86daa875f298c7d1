#include "kernels/cuda/bodies/arg_max.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const ArgBody<float>&, std::int64_t, void*);
template void launch(const ArgBody<double>&, std::int64_t, void*);
template void launch(const ArgBody<Half>&, std::int64_t, void*);
template void launch(const ArgBody<BFloat16>&, std::int64_t, void*);
template void launch(const ArgBody<std::int32_t>&, std::int64_t, void*);
template void launch(const ArgBody<std::int64_t>&, std::int64_t, void*);
}  // namespace tandem::cuda
