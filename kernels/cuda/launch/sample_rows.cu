#include "kernels/cuda/bodies/sample_rows.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const SampleRowsBody<float>&, std::int64_t, void*);
template void launch(const SampleRowsBody<double>&, std::int64_t, void*);
template void launch(const SampleRowsBody<Half>&, std::int64_t, void*);
template void launch(const SampleRowsBody<BFloat16>&, std::int64_t, void*);
template void launch(const SampleRowsBackwardDataBody<float>&, std::int64_t, void*);
template void launch(const SampleRowsBackwardDataBody<double>&, std::int64_t, void*);
template void launch(const SampleRowsBackwardDataBody<Half>&, std::int64_t, void*);
template void launch(const SampleRowsBackwardDataBody<BFloat16>&, std::int64_t, void*);
template void launch(const SampleRowsBackwardWeightsBody<float>&, std::int64_t, void*);
template void launch(const SampleRowsBackwardWeightsBody<double>&, std::int64_t, void*);
template void launch(const SampleRowsBackwardWeightsBody<Half>&, std::int64_t, void*);
template void launch(const SampleRowsBackwardWeightsBody<BFloat16>&, std::int64_t, void*);
}  // namespace tandem::cuda
