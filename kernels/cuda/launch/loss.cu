#include "kernels/cuda/bodies/loss.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
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
template void launch(const DenseCrossEntropyBody<float>&, std::int64_t, void*);
template void launch(const DenseCrossEntropyBody<double>&, std::int64_t, void*);
template void launch(const DenseCrossEntropyBody<Half>&, std::int64_t, void*);
template void launch(const DenseCrossEntropyBody<BFloat16>&, std::int64_t, void*);
template void launch(const DenseCorrectBody<float>&, std::int64_t, void*);
template void launch(const DenseCorrectBody<double>&, std::int64_t, void*);
template void launch(const DenseCorrectBody<Half>&, std::int64_t, void*);
template void launch(const DenseCorrectBody<BFloat16>&, std::int64_t, void*);
}  // namespace tandem::cuda
