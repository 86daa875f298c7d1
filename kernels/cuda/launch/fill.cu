#include "kernels/cuda/bodies/fill.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const FillBody<std::uint8_t>&, std::int64_t, void*);
template void launch(const FillBody<std::uint16_t>&, std::int64_t, void*);
template void launch(const FillBody<std::uint32_t>&, std::int64_t, void*);
template void launch(const FillBody<std::uint64_t>&, std::int64_t, void*);
}  // namespace tandem::cuda
