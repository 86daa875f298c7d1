#include "kernels/cuda/bodies/convolution.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
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
}  // namespace tandem::cuda
