#include "kernels/cuda/bodies/lrn.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const LrnBody<float>&, std::int64_t, void*);
template void launch(const LrnBody<double>&, std::int64_t, void*);
template void launch(const LrnBody<Half>&, std::int64_t, void*);
template void launch(const LrnBody<BFloat16>&, std::int64_t, void*);
template void launch(const LrnBackwardBody<float>&, std::int64_t, void*);
template void launch(const LrnBackwardBody<double>&, std::int64_t, void*);
template void launch(const LrnBackwardBody<Half>&, std::int64_t, void*);
template void launch(const LrnBackwardBody<BFloat16>&, std::int64_t, void*);
}  // namespace tandem::cuda
