#include "kernels/cuda/bodies/attention.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const AttentionBody<float, 64, 64, 32>&, std::int64_t, void*);
template void launch(const AttentionGradientBody<float, 64, 32, 32, false>&, std::int64_t, void*);
template void launch(const AttentionGradientBody<float, 64, 32, 32, true>&, std::int64_t, void*);
template void launch(const AttentionBody<float, 128, 32, 16>&, std::int64_t, void*);
template void launch(const AttentionGradientBody<float, 128, 16, 16, false>&, std::int64_t, void*);
template void launch(const AttentionGradientBody<float, 128, 16, 16, true>&, std::int64_t, void*);
template void launch(const AttentionDeltaBody<float>&, std::int64_t, void*);
template void launch(const AttentionBody<Half, 64, 64, 64>&, std::int64_t, void*);
template void launch(const AttentionGradientBody<Half, 64, 64, 64, false>&, std::int64_t, void*);
template void launch(const AttentionGradientBody<Half, 64, 64, 64, true>&, std::int64_t, void*);
template void launch(const AttentionBody<Half, 128, 64, 32>&, std::int64_t, void*);
template void launch(const AttentionGradientBody<Half, 128, 32, 32, false>&, std::int64_t, void*);
template void launch(const AttentionGradientBody<Half, 128, 32, 16, true>&, std::int64_t, void*);
template void launch(const AttentionDeltaBody<Half>&, std::int64_t, void*);
template void launch(const AttentionBody<BFloat16, 64, 64, 64>&, std::int64_t, void*);
template void launch(const AttentionGradientBody<BFloat16, 64, 64, 64, false>&, std::int64_t, void*);
template void launch(const AttentionGradientBody<BFloat16, 64, 64, 64, true>&, std::int64_t, void*);
template void launch(const AttentionBody<BFloat16, 128, 64, 32>&, std::int64_t, void*);
template void launch(const AttentionGradientBody<BFloat16, 128, 32, 32, false>&, std::int64_t, void*);
template void launch(const AttentionGradientBody<BFloat16, 128, 32, 16, true>&, std::int64_t, void*);
template void launch(const AttentionDeltaBody<BFloat16>&, std::int64_t, void*);
}  // namespace tandem::cuda
