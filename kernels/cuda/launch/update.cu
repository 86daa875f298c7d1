#include "kernels/cuda/bodies/update.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
#define UPDATE_BODIES(T)                                                \
  template void launch(const MeasureBody<T>&, std::int64_t, void*);     \
  template void launch(const TrustBody<T>&, std::int64_t, void*);       \
  template void launch(const UpdateBody<T>&, std::int64_t, void*);
UPDATE_BODIES(float)
UPDATE_BODIES(double)
template void launch(const SquaresBody&, std::int64_t, void*);
template void launch(const ClipScalarsBody&, std::int64_t, void*);
}  // namespace tandem::cuda
