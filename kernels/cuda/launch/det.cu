#include "kernels/cuda/bodies/det.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const DetBody<float, false>&, std::int64_t, void*);
template void launch(const DetBody<double, false>&, std::int64_t, void*);
template void launch(const DetBody<float, true>&, std::int64_t, void*);
template void launch(const DetBody<double, true>&, std::int64_t, void*);
}  // namespace tandem::cuda
