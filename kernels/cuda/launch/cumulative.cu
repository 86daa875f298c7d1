#include "kernels/cuda/bodies/cumulative.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const CumulativeBody<float>&, std::int64_t, void*);
template void launch(const CumulativeBody<double>&, std::int64_t, void*);
template void launch(const CumulativeBody<Half>&, std::int64_t, void*);
template void launch(const CumulativeBody<BFloat16>&, std::int64_t, void*);
template void launch(const CumulativeBody<std::uint32_t>&, std::int64_t, void*);
template void launch(const CumulativeBody<std::uint64_t>&, std::int64_t, void*);
template void launch(const CumulativeProductBackwardBody<float>&, std::int64_t, void*);
template void launch(const CumulativeProductBackwardBody<double>&, std::int64_t, void*);
}  // namespace tandem::cuda
