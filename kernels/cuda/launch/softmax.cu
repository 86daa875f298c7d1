#include "kernels/cuda/bodies/softmax.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const SoftmaxBody<float>&, std::int64_t, void*);
template void launch(const SoftmaxBody<double>&, std::int64_t, void*);
template void launch(const SoftmaxBody<Half>&, std::int64_t, void*);
template void launch(const SoftmaxBody<BFloat16>&, std::int64_t, void*);
template void launch(const SoftmaxThreadBody<float>&, std::int64_t, void*);
template void launch(const SoftmaxThreadBody<double>&, std::int64_t, void*);
template void launch(const SoftmaxThreadBody<Half>&, std::int64_t, void*);
template void launch(const SoftmaxThreadBody<BFloat16>&, std::int64_t, void*);
}  // namespace tandem::cuda
