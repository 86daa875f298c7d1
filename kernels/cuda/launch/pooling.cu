#include "kernels/cuda/bodies/pooling.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
#define POOLING_BODIES(T, width)                                                    \
  template void launch(const MaxPoolBody<T, width>&, std::int64_t, void*);             \
  template void launch(const MaxPoolBackwardBody<T, width>&, std::int64_t, void*);     \
  template void launch(const AveragePoolBody<T, width>&, std::int64_t, void*);         \
  template void launch(const AveragePoolBackwardBody<T, width>&, std::int64_t, void*);
POOLING_BODIES(float, 1)
POOLING_BODIES(float, 4)
POOLING_BODIES(double, 1)
POOLING_BODIES(Half, 1)
POOLING_BODIES(Half, 8)
POOLING_BODIES(BFloat16, 1)
POOLING_BODIES(BFloat16, 8)
#undef POOLING_BODIES
}  // namespace tandem::cuda
