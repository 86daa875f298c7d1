#include "kernels/cuda/bodies/gather.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
#define GATHER_BODIES(Unit)                                                              \
  template void launch(const GatherBody<Unit, 1>&, std::int64_t, void*);                 \
  template void launch(const GatherBody<Unit, full_pack<Unit>>&, std::int64_t, void*);   \
  template void launch(const GatherElementsBody<Unit>&, std::int64_t, void*);
GATHER_BODIES(std::uint8_t)
GATHER_BODIES(std::uint16_t)
GATHER_BODIES(std::uint32_t)
GATHER_BODIES(std::uint64_t)

template void launch(const SortKeysBody<IndexRows>&, std::int64_t, void*);
#define GATHER_GRADIENTS(T, width)                                                \
  template void launch(const GatherPiecesBody<T, width>&, std::int64_t, void*);   \
  template void launch(const GatherSpansBody<T, width>&, std::int64_t, void*);
GATHER_GRADIENTS(float, 1)
GATHER_GRADIENTS(float, 4)
GATHER_GRADIENTS(double, 1)
GATHER_GRADIENTS(Half, 1)
GATHER_GRADIENTS(Half, 8)
GATHER_GRADIENTS(BFloat16, 1)
GATHER_GRADIENTS(BFloat16, 8)
template void launch(const GatherElementsBackwardBody<float>&, std::int64_t, void*);
template void launch(const GatherElementsBackwardBody<double>&, std::int64_t, void*);
template void launch(const GatherElementsBackwardBody<Half>&, std::int64_t, void*);
template void launch(const GatherElementsBackwardBody<BFloat16>&, std::int64_t, void*);
}  // namespace tandem::cuda
