#include "kernels/cuda/bodies/dropout.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
#define DROPOUT_BODIES(T)                                                   \
  template void launch(const DropoutBody<T>&, std::int64_t, void*);         \
  template void launch(const DropoutPacksBody<T, 4>&, std::int64_t, void*); \
  template void launch(const DropoutPacksBody<T, 8>&, std::int64_t, void*);
DROPOUT_BODIES(float)
DROPOUT_BODIES(double)
DROPOUT_BODIES(Half)
DROPOUT_BODIES(BFloat16)
}  // namespace tandem::cuda
