#include "kernels/cuda/bodies/softmax.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
#define SOFTMAX_BODIES(T, Y)                                              \
  template void launch(const SoftmaxBody<T, Y>&, std::int64_t, void*); \
  template void launch(const SoftmaxThreadBody<T, Y>&, std::int64_t, void*);
SOFTMAX_BODIES(float, float)
SOFTMAX_BODIES(double, double)
SOFTMAX_BODIES(Half, Half)
SOFTMAX_BODIES(BFloat16, BFloat16)
SOFTMAX_BODIES(Half, float)
SOFTMAX_BODIES(BFloat16, float)
SOFTMAX_BODIES(float, Half)
SOFTMAX_BODIES(float, BFloat16)
#undef SOFTMAX_BODIES
}  // namespace tandem::cuda
