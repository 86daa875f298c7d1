#include "kernels/cuda/bodies/reduce.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const ReductionBody<float, float>&, std::int64_t, void*);
template void launch(const ReductionBody<double, double>&, std::int64_t, void*);
template void launch(const ReductionBody<Half, Half>&, std::int64_t, void*);
template void launch(const ReductionBody<Half, float>&, std::int64_t, void*);
template void launch(const ReductionBody<float, Half>&, std::int64_t, void*);
template void launch(const ReductionBody<BFloat16, BFloat16>&, std::int64_t, void*);
template void launch(const ReductionBody<BFloat16, float>&, std::int64_t, void*);
template void launch(const ReductionBody<float, BFloat16>&, std::int64_t, void*);
template void launch(const ReductionBody<std::int32_t, std::int32_t>&, std::int64_t, void*);
template void launch(const ReductionBody<std::int64_t, std::int64_t>&, std::int64_t, void*);
}  // namespace tandem::cuda
