#include "kernels/cuda/bodies/all_reduce.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const AllReduceBody<float>&, std::int64_t, void*);
template void launch(const AllReduceBody<double>&, std::int64_t, void*);
template void launch(const AllReduceBody<Half>&, std::int64_t, void*);
template void launch(const AllReduceBody<BFloat16>&, std::int64_t, void*);
}  // namespace tandem::cuda
