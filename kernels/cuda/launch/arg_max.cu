#include "kernels/cuda/bodies/arg_max.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
#define ARG_BODIES(T)                                                                    \
  template void launch(const ArgBody<T>&, std::int64_t, void*);                          \
  template void launch(const ArgLineBody<T, 32, 1>&, std::int64_t, void*);               \
  template void launch(const ArgLineBody<T, 256, 1>&, std::int64_t, void*);              \
  template void launch(const ArgLineBody<T, 32, full_pack<T>>&, std::int64_t, void*);    \
  template void launch(const ArgLineBody<T, 256, full_pack<T>>&, std::int64_t, void*);
ARG_BODIES(float)
ARG_BODIES(double)
ARG_BODIES(Half)
ARG_BODIES(BFloat16)
ARG_BODIES(std::int32_t)
ARG_BODIES(std::int64_t)
#undef ARG_BODIES
}  // namespace tandem::cuda
