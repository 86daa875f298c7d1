#include "kernels/cuda/bodies/pooling.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const MaxPoolBody<float>&, std::int64_t, void*);
template void launch(const MaxPoolBody<double>&, std::int64_t, void*);
template void launch(const MaxPoolBody<Half>&, std::int64_t, void*);
template void launch(const MaxPoolBody<BFloat16>&, std::int64_t, void*);
template void launch(const MaxPoolBackwardBody<float>&, std::int64_t, void*);
template void launch(const MaxPoolBackwardBody<double>&, std::int64_t, void*);
template void launch(const MaxPoolBackwardBody<Half>&, std::int64_t, void*);
template void launch(const MaxPoolBackwardBody<BFloat16>&, std::int64_t, void*);
template void launch(const AveragePoolBody<float>&, std::int64_t, void*);
template void launch(const AveragePoolBody<double>&, std::int64_t, void*);
template void launch(const AveragePoolBody<Half>&, std::int64_t, void*);
template void launch(const AveragePoolBody<BFloat16>&, std::int64_t, void*);
template void launch(const AveragePoolBackwardBody<float>&, std::int64_t, void*);
template void launch(const AveragePoolBackwardBody<double>&, std::int64_t, void*);
template void launch(const AveragePoolBackwardBody<Half>&, std::int64_t, void*);
template void launch(const AveragePoolBackwardBody<BFloat16>&, std::int64_t, void*);
}  // namespace tandem::cuda
