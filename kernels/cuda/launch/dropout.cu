#include "kernels/cuda/bodies/dropout.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const DropoutBody<float>&, std::int64_t, void*);
template void launch(const DropoutBody<double>&, std::int64_t, void*);
template void launch(const DropoutBody<Half>&, std::int64_t, void*);
template void launch(const DropoutBody<BFloat16>&, std::int64_t, void*);
template void launch(const DropoutBackwardBody<float>&, std::int64_t, void*);
template void launch(const DropoutBackwardBody<double>&, std::int64_t, void*);
template void launch(const DropoutBackwardBody<Half>&, std::int64_t, void*);
template void launch(const DropoutBackwardBody<BFloat16>&, std::int64_t, void*);
}  // namespace tandem::cuda
