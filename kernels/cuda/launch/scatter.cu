#include "kernels/cuda/bodies/scatter.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const GatherNDBody<std::uint8_t>&, std::int64_t, void*);
template void launch(const GatherNDBody<std::uint16_t>&, std::int64_t, void*);
template void launch(const GatherNDBody<std::uint32_t>&, std::int64_t, void*);
template void launch(const GatherNDBody<std::uint64_t>&, std::int64_t, void*);
template void launch(const SortKeysBody<TupleRows>&, std::int64_t, void*);
template void launch(const SortKeysBody<ElementRows>&, std::int64_t, void*);
template void launch(const SortStepBody&, std::int64_t, void*);
template void launch(const SortBlockBody&, std::int64_t, void*);
template void launch(const ScatterRowsBody<std::uint8_t>&, std::int64_t, void*);
template void launch(const ScatterRowsBody<std::uint16_t>&, std::int64_t, void*);
template void launch(const ScatterRowsBody<std::uint32_t>&, std::int64_t, void*);
template void launch(const ScatterRowsBody<std::uint64_t>&, std::int64_t, void*);
template void launch(const ScatterRowsBody<std::int32_t>&, std::int64_t, void*);
template void launch(const ScatterRowsBody<std::int64_t>&, std::int64_t, void*);
template void launch(const ScatterRowsBody<float>&, std::int64_t, void*);
template void launch(const ScatterRowsBody<double>&, std::int64_t, void*);
template void launch(const ScatterRowsBody<Half>&, std::int64_t, void*);
template void launch(const ScatterRowsBody<BFloat16>&, std::int64_t, void*);
}  // namespace tandem::cuda
