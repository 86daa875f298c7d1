#include "kernels/cuda/bodies/comparison.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const CompareBody<float>&, std::int64_t, void*);
template void launch(const CompareBody<double>&, std::int64_t, void*);
template void launch(const CompareBody<Half>&, std::int64_t, void*);
template void launch(const CompareBody<BFloat16>&, std::int64_t, void*);
template void launch(const CompareBody<std::int8_t>&, std::int64_t, void*);
template void launch(const CompareBody<std::int16_t>&, std::int64_t, void*);
template void launch(const CompareBody<std::int32_t>&, std::int64_t, void*);
template void launch(const CompareBody<std::int64_t>&, std::int64_t, void*);
template void launch(const CompareBody<std::uint8_t>&, std::int64_t, void*);
template void launch(const CompareBody<std::uint16_t>&, std::int64_t, void*);
template void launch(const CompareBody<std::uint32_t>&, std::int64_t, void*);
template void launch(const CompareBody<std::uint64_t>&, std::int64_t, void*);
template void launch(const WhereBody<std::uint8_t>&, std::int64_t, void*);
template void launch(const WhereBody<std::uint16_t>&, std::int64_t, void*);
template void launch(const WhereBody<std::uint32_t>&, std::int64_t, void*);
template void launch(const WhereBody<std::uint64_t>&, std::int64_t, void*);
}  // namespace tandem::cuda
