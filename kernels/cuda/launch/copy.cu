#include "kernels/cuda/bodies/copy.h"
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
}  // namespace tandem::cuda
