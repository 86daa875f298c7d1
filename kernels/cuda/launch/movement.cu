#include "kernels/cuda/bodies/movement.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const CopyBody<std::uint8_t>&, std::int64_t, void*);
template void launch(const CopyBody<std::uint16_t>&, std::int64_t, void*);
template void launch(const CopyBody<std::uint32_t>&, std::int64_t, void*);
template void launch(const CopyBody<std::uint64_t>&, std::int64_t, void*);
template void launch(const CopyBody<Bytes16>&, std::int64_t, void*);
template void launch(const TransposeBody<std::uint8_t>&, std::int64_t, void*);
template void launch(const TransposeBody<std::uint16_t>&, std::int64_t, void*);
template void launch(const TransposeBody<std::uint32_t>&, std::int64_t, void*);
template void launch(const TransposeBody<std::uint64_t>&, std::int64_t, void*);
template void launch(const FillBody<std::uint8_t>&, std::int64_t, void*);
template void launch(const FillBody<std::uint16_t>&, std::int64_t, void*);
template void launch(const FillBody<std::uint32_t>&, std::int64_t, void*);
template void launch(const FillBody<std::uint64_t>&, std::int64_t, void*);
template void launch(const PadBody<std::uint8_t>&, std::int64_t, void*);
template void launch(const PadBody<std::uint16_t>&, std::int64_t, void*);
template void launch(const PadBody<std::uint32_t>&, std::int64_t, void*);
template void launch(const PadBody<std::uint64_t>&, std::int64_t, void*);
template void launch(const PadBackwardBody<float>&, std::int64_t, void*);
template void launch(const PadBackwardBody<double>&, std::int64_t, void*);
template void launch(const PadBackwardBody<Half>&, std::int64_t, void*);
template void launch(const PadBackwardBody<BFloat16>&, std::int64_t, void*);
template void launch(const GatherBody<std::uint8_t>&, std::int64_t, void*);
template void launch(const GatherBody<std::uint16_t>&, std::int64_t, void*);
template void launch(const GatherBody<std::uint32_t>&, std::int64_t, void*);
template void launch(const GatherBody<std::uint64_t>&, std::int64_t, void*);
template void launch(const GatherChainBody&, std::int64_t, void*);
template void launch(const GatherBackwardBody<float>&, std::int64_t, void*);
template void launch(const GatherBackwardBody<double>&, std::int64_t, void*);
template void launch(const GatherBackwardBody<Half>&, std::int64_t, void*);
template void launch(const GatherBackwardBody<BFloat16>&, std::int64_t, void*);
}  // namespace tandem::cuda
