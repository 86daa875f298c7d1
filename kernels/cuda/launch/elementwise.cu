#include "kernels/cuda/bodies/elementwise.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const ElementwiseBody<float>&, std::int64_t, void*);
template void launch(const ElementwiseBody<double>&, std::int64_t, void*);
template void launch(const ElementwiseBody<Half>&, std::int64_t, void*);
template void launch(const ElementwiseBody<BFloat16>&, std::int64_t, void*);
template void launch(const ElementwiseBody<std::int8_t>&, std::int64_t, void*);
template void launch(const ElementwiseBody<std::int16_t>&, std::int64_t, void*);
template void launch(const ElementwiseBody<std::int32_t>&, std::int64_t, void*);
template void launch(const ElementwiseBody<std::int64_t>&, std::int64_t, void*);
template void launch(const ElementwiseBody<std::uint8_t>&, std::int64_t, void*);
template void launch(const ElementwiseBody<std::uint16_t>&, std::int64_t, void*);
template void launch(const ElementwiseBody<std::uint32_t>&, std::int64_t, void*);
template void launch(const ElementwiseBody<std::uint64_t>&, std::int64_t, void*);
}  // namespace tandem::cuda
