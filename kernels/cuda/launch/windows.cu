#include "kernels/cuda/bodies/windows.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const MaxPoolBody<float>&, std::int64_t, void*);
template void launch(const MaxPoolBody<double>&, std::int64_t, void*);
template void launch(const MaxPoolBody<Half>&, std::int64_t, void*);
template void launch(const MaxPoolBody<BFloat16>&, std::int64_t, void*);
template void launch(const MaxPoolBackwardBody<float>&, std::int64_t, void*);
template void launch(const MaxPoolBackwardBody<double>&, std::int64_t, void*);
template void launch(const MaxPoolBackwardBody<Half>&, std::int64_t, void*);
template void launch(const MaxPoolBackwardBody<BFloat16>&, std::int64_t, void*);
template void launch(const AveragePoolBody<float>&, std::int64_t, void*);
template void launch(const AveragePoolBody<double>&, std::int64_t, void*);
template void launch(const AveragePoolBody<Half>&, std::int64_t, void*);
template void launch(const AveragePoolBody<BFloat16>&, std::int64_t, void*);
template void launch(const AveragePoolBackwardBody<float>&, std::int64_t, void*);
template void launch(const AveragePoolBackwardBody<double>&, std::int64_t, void*);
template void launch(const AveragePoolBackwardBody<Half>&, std::int64_t, void*);
template void launch(const AveragePoolBackwardBody<BFloat16>&, std::int64_t, void*);
template void launch(const ConvolutionBody<float>&, std::int64_t, void*);
template void launch(const ConvolutionBody<double>&, std::int64_t, void*);
template void launch(const ConvolutionBody<Half>&, std::int64_t, void*);
template void launch(const ConvolutionBody<BFloat16>&, std::int64_t, void*);
template void launch(const ConvolutionBackwardDataBody<float>&, std::int64_t, void*);
template void launch(const ConvolutionBackwardDataBody<double>&, std::int64_t, void*);
template void launch(const ConvolutionBackwardDataBody<Half>&, std::int64_t, void*);
template void launch(const ConvolutionBackwardDataBody<BFloat16>&, std::int64_t, void*);
template void launch(const ConvolutionBackwardWeightsBody<float>&, std::int64_t, void*);
template void launch(const ConvolutionBackwardWeightsBody<double>&, std::int64_t, void*);
template void launch(const ConvolutionBackwardWeightsBody<Half>&, std::int64_t, void*);
template void launch(const ConvolutionBackwardWeightsBody<BFloat16>&, std::int64_t, void*);
template void launch(const LrnBody<float>&, std::int64_t, void*);
template void launch(const LrnBody<double>&, std::int64_t, void*);
template void launch(const LrnBody<Half>&, std::int64_t, void*);
template void launch(const LrnBody<BFloat16>&, std::int64_t, void*);
template void launch(const LrnBackwardBody<float>&, std::int64_t, void*);
template void launch(const LrnBackwardBody<double>&, std::int64_t, void*);
template void launch(const LrnBackwardBody<Half>&, std::int64_t, void*);
template void launch(const LrnBackwardBody<BFloat16>&, std::int64_t, void*);
}  // namespace tandem::cuda
