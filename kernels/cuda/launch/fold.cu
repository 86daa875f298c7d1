#include "kernels/cuda/bodies/fold.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const FoldBody<float>&, std::int64_t, void*);
template void launch(const FoldBody<double>&, std::int64_t, void*);
template void launch(const FoldBody<Half>&, std::int64_t, void*);
template void launch(const FoldBody<BFloat16>&, std::int64_t, void*);
}  // namespace tandem::cuda
