#include "kernels/cuda/bodies/look_up.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
#define LOOK_UP_BODIES(T)                                                        \
  template void launch(const LookUpBody<T, false, false>&, std::int64_t, void*); \
  template void launch(const LookUpBody<T, false, true>&, std::int64_t, void*);  \
  template void launch(const LookUpBody<T, true, false>&, std::int64_t, void*);  \
  template void launch(const LookUpBody<T, true, true>&, std::int64_t, void*);
LOOK_UP_BODIES(std::uint16_t)
LOOK_UP_BODIES(std::uint32_t)
#undef LOOK_UP_BODIES
}  // namespace tandem::cuda
