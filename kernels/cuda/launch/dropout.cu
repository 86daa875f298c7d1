#include "kernels/cuda/bodies/dropout.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
#define DROPOUT_BODIES(T)                                                          \
  template void launch(const DropoutBody<T, false>&, std::int64_t, void*);         \
  template void launch(const DropoutBody<T, true>&, std::int64_t, void*);          \
  template void launch(const DropoutChannelsBody<T>&, std::int64_t, void*);        \
  template void launch(const DropoutPacksBody<T, 4, false>&, std::int64_t, void*); \
  template void launch(const DropoutPacksBody<T, 4, true>&, std::int64_t, void*);  \
  template void launch(const DropoutPacksBody<T, 8, false>&, std::int64_t, void*); \
  template void launch(const DropoutPacksBody<T, 8, true>&, std::int64_t, void*);
DROPOUT_BODIES(float)
DROPOUT_BODIES(double)
DROPOUT_BODIES(Half)
DROPOUT_BODIES(BFloat16)
}  // namespace tandem::cuda
