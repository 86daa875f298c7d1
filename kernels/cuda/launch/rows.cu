#include "kernels/cuda/bodies/rows.h"
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
template void launch(const CrossEntropyBody<float>&, std::int64_t, void*);
template void launch(const CrossEntropyBody<double>&, std::int64_t, void*);
template void launch(const CrossEntropyBody<Half>&, std::int64_t, void*);
template void launch(const CrossEntropyBody<BFloat16>&, std::int64_t, void*);
template void launch(const LikelihoodBody<float>&, std::int64_t, void*);
template void launch(const LikelihoodBody<double>&, std::int64_t, void*);
template void launch(const LikelihoodBody<Half>&, std::int64_t, void*);
template void launch(const LikelihoodBody<BFloat16>&, std::int64_t, void*);
template void launch(const QuotientBody<float>&, std::int64_t, void*);
template void launch(const QuotientBody<double>&, std::int64_t, void*);
template void launch(const QuotientBody<Half>&, std::int64_t, void*);
template void launch(const QuotientBody<BFloat16>&, std::int64_t, void*);
template void launch(const LikelihoodBackwardBody<float>&, std::int64_t, void*);
template void launch(const LikelihoodBackwardBody<double>&, std::int64_t, void*);
template void launch(const LikelihoodBackwardBody<Half>&, std::int64_t, void*);
template void launch(const LikelihoodBackwardBody<BFloat16>&, std::int64_t, void*);
template void launch(const CorrectBody<float>&, std::int64_t, void*);
template void launch(const CorrectBody<double>&, std::int64_t, void*);
template void launch(const CorrectBody<Half>&, std::int64_t, void*);
template void launch(const CorrectBody<BFloat16>&, std::int64_t, void*);
template void launch(const ArgBody<float>&, std::int64_t, void*);
template void launch(const ArgBody<double>&, std::int64_t, void*);
template void launch(const ArgBody<Half>&, std::int64_t, void*);
template void launch(const ArgBody<BFloat16>&, std::int64_t, void*);
template void launch(const ArgBody<std::int32_t>&, std::int64_t, void*);
template void launch(const ArgBody<std::int64_t>&, std::int64_t, void*);
}  // namespace tandem::cuda
