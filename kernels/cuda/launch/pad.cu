#include "kernels/cuda/bodies/pad.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const PadBody<std::uint8_t>&, std::int64_t, void*);
template void launch(const PadBody<std::uint16_t>&, std::int64_t, void*);
template void launch(const PadBody<std::uint32_t>&, std::int64_t, void*);
template void launch(const PadBody<std::uint64_t>&, std::int64_t, void*);
template void launch(const PadBackwardBody<float>&, std::int64_t, void*);
template void launch(const PadBackwardBody<double>&, std::int64_t, void*);
template void launch(const PadBackwardBody<Half>&, std::int64_t, void*);
template void launch(const PadBackwardBody<BFloat16>&, std::int64_t, void*);
}  // namespace tandem::cuda
