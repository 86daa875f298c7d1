#include "kernels/cuda/bodies/update.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const UpdateBody<float>&, std::int64_t, void*);
template void launch(const UpdateBody<double>&, std::int64_t, void*);
}  // namespace tandem::cuda
