#include "kernels/cuda/bodies/pooling.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
#define MAX_POOL_BODIES(T, width)                                               \
  template void launch(const MaxPoolBody<T, width>&, std::int64_t, void*);      \
  template void launch(const MaxPoolBackwardBody<T, width>&, std::int64_t, void*);
MAX_POOL_BODIES(float, 1)
MAX_POOL_BODIES(float, 4)
MAX_POOL_BODIES(double, 1)
MAX_POOL_BODIES(Half, 1)
MAX_POOL_BODIES(Half, 8)
MAX_POOL_BODIES(BFloat16, 1)
MAX_POOL_BODIES(BFloat16, 8)
template void launch(const AveragePoolBody<float>&, std::int64_t, void*);
template void launch(const AveragePoolBody<double>&, std::int64_t, void*);
template void launch(const AveragePoolBody<Half>&, std::int64_t, void*);
template void launch(const AveragePoolBody<BFloat16>&, std::int64_t, void*);
template void launch(const AveragePoolBackwardBody<float>&, std::int64_t, void*);
template void launch(const AveragePoolBackwardBody<double>&, std::int64_t, void*);
template void launch(const AveragePoolBackwardBody<Half>&, std::int64_t, void*);
template void launch(const AveragePoolBackwardBody<BFloat16>&, std::int64_t, void*);
}  // namespace tandem::cuda
