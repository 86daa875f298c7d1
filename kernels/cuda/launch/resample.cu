#include "kernels/cuda/bodies/resample.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const ResampleBody<std::uint8_t>&, std::int64_t, void*);
template void launch(const ResampleBody<std::uint16_t>&, std::int64_t, void*);
template void launch(const ResampleBody<std::uint32_t>&, std::int64_t, void*);
template void launch(const ResampleBody<std::uint64_t>&, std::int64_t, void*);
template void launch(const ResampleBody<float>&, std::int64_t, void*);
template void launch(const ResampleBody<double>&, std::int64_t, void*);
template void launch(const ResampleBody<Half>&, std::int64_t, void*);
template void launch(const ResampleBody<BFloat16>&, std::int64_t, void*);
}  // namespace tandem::cuda
