#include "kernels/cuda/bodies/copy.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const CopyBody<std::uint8_t>&, std::int64_t, void*);
template void launch(const CopyBody<std::uint16_t>&, std::int64_t, void*);
template void launch(const CopyBody<std::uint32_t>&, std::int64_t, void*);
template void launch(const CopyBody<std::uint64_t>&, std::int64_t, void*);
template void launch(const CopyBody<Bytes16>&, std::int64_t, void*);
#define COPY_BODIES(Unit)                                                    \
  template void launch(const RunCopyBody<Unit, false>&, std::int64_t, void*); \
  template void launch(const RunCopyBody<Unit, true>&, std::int64_t, void*);  \
  template void launch(const TransposeBody<Unit, 1, 32>&, std::int64_t, void*);
COPY_BODIES(std::uint8_t)
COPY_BODIES(std::uint16_t)
COPY_BODIES(std::uint32_t)
COPY_BODIES(std::uint64_t)
#undef COPY_BODIES
template void launch(const TransposeBody<std::uint8_t, 1, 64>&, std::int64_t, void*);
template void launch(const TransposeBody<std::uint16_t, 1, 64>&, std::int64_t, void*);
template void launch(const TransposeBody<std::uint16_t, 2, 64>&, std::int64_t, void*);
template void launch(const TransposeBody<std::uint32_t, 1, 64>&, std::int64_t, void*);
}  // namespace tandem::cuda
