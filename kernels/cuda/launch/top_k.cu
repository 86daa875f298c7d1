#include "kernels/cuda/bodies/top_k.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const TopKBody<float>&, std::int64_t, void*);
template void launch(const TopKBody<double>&, std::int64_t, void*);
template void launch(const TopKBody<Half>&, std::int64_t, void*);
template void launch(const TopKBody<BFloat16>&, std::int64_t, void*);
template void launch(const TopKBody<std::int32_t>&, std::int64_t, void*);
template void launch(const TopKBody<std::int64_t>&, std::int64_t, void*);
template void launch(const TopKBody<std::uint64_t>&, std::int64_t, void*);
}  // namespace tandem::cuda
