#include "kernels/cuda/bodies/gather.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const GatherBody<std::uint8_t>&, std::int64_t, void*);
template void launch(const GatherBody<std::uint16_t>&, std::int64_t, void*);
template void launch(const GatherBody<std::uint32_t>&, std::int64_t, void*);
template void launch(const GatherBody<std::uint64_t>&, std::int64_t, void*);
template void launch(const GatherChainBody&, std::int64_t, void*);
template void launch(const GatherBackwardBody<float>&, std::int64_t, void*);
template void launch(const GatherBackwardBody<double>&, std::int64_t, void*);
template void launch(const GatherBackwardBody<Half>&, std::int64_t, void*);
template void launch(const GatherBackwardBody<BFloat16>&, std::int64_t, void*);
template void launch(const GatherElementsBody<std::uint8_t>&, std::int64_t, void*);
template void launch(const GatherElementsBody<std::uint16_t>&, std::int64_t, void*);
template void launch(const GatherElementsBody<std::uint32_t>&, std::int64_t, void*);
template void launch(const GatherElementsBody<std::uint64_t>&, std::int64_t, void*);
template void launch(const GatherElementsBackwardBody<float>&, std::int64_t, void*);
template void launch(const GatherElementsBackwardBody<double>&, std::int64_t, void*);
template void launch(const GatherElementsBackwardBody<Half>&, std::int64_t, void*);
template void launch(const GatherElementsBackwardBody<BFloat16>&, std::int64_t, void*);
}  // namespace tandem::cuda
