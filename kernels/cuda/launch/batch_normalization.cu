#include "kernels/cuda/bodies/batch_normalization.h"
#include "kernels/cuda/bodies/channel_statistics.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const MomentsBody<float, 1>&, std::int64_t, void*);
template void launch(const MomentsBody<float, 4>&, std::int64_t, void*);
template void launch(const MomentsBody<double, 1>&, std::int64_t, void*);
template void launch(const MomentsBody<Half, 1>&, std::int64_t, void*);
template void launch(const MomentsBody<Half, 8>&, std::int64_t, void*);
template void launch(const MomentsBody<BFloat16, 1>&, std::int64_t, void*);
template void launch(const MomentsBody<BFloat16, 8>&, std::int64_t, void*);
template void launch(const StatisticsBody<float>&, std::int64_t, void*);
template void launch(const StatisticsBody<double>&, std::int64_t, void*);
template void launch(const GroupStatisticsBody<float>&, std::int64_t, void*);
template void launch(const GroupStatisticsBody<double>&, std::int64_t, void*);
template void launch(const GroupSumsBody<float>&, std::int64_t, void*);
template void launch(const GroupSumsBody<double>&, std::int64_t, void*);
template void launch(const VarianceBody&, std::int64_t, void*);
template void launch(const SummedStatisticsBody<float, float>&, std::int64_t, void*);
template void launch(const SummedStatisticsBody<double, double>&, std::int64_t, void*);
template void launch(const SummedStatisticsBody<Half, float>&, std::int64_t, void*);
template void launch(const SummedStatisticsBody<BFloat16, float>&, std::int64_t, void*);
template void launch(const NormalizeBody<float, float, 1>&, std::int64_t, void*);
template void launch(const NormalizeBody<float, float, 4>&, std::int64_t, void*);
template void launch(const NormalizeBody<double, double, 1>&, std::int64_t, void*);
template void launch(const NormalizeBody<Half, float, 1>&, std::int64_t, void*);
template void launch(const NormalizeBody<Half, float, 8>&, std::int64_t, void*);
template void launch(const NormalizeBody<BFloat16, float, 1>&, std::int64_t, void*);
template void launch(const NormalizeBody<BFloat16, float, 8>&, std::int64_t, void*);
template void launch(const NormalizeBody<Half, Half, 1>&, std::int64_t, void*);
template void launch(const NormalizeBody<Half, Half, 8>&, std::int64_t, void*);
template void launch(const NormalizeBody<BFloat16, BFloat16, 1>&, std::int64_t, void*);
template void launch(const NormalizeBody<BFloat16, BFloat16, 8>&, std::int64_t, void*);
template void launch(const NormSumsBody<float, 1>&, std::int64_t, void*);
template void launch(const NormSumsBody<float, 4>&, std::int64_t, void*);
template void launch(const NormSumsBody<double, 1>&, std::int64_t, void*);
template void launch(const NormSumsBody<Half, 1>&, std::int64_t, void*);
template void launch(const NormSumsBody<Half, 8>&, std::int64_t, void*);
template void launch(const NormSumsBody<BFloat16, 1>&, std::int64_t, void*);
template void launch(const NormSumsBody<BFloat16, 8>&, std::int64_t, void*);
template void launch(const NormGradientBody<float, 1>&, std::int64_t, void*);
template void launch(const NormGradientBody<float, 4>&, std::int64_t, void*);
template void launch(const NormGradientBody<double, 1>&, std::int64_t, void*);
template void launch(const NormGradientBody<Half, 1>&, std::int64_t, void*);
template void launch(const NormGradientBody<Half, 8>&, std::int64_t, void*);
template void launch(const NormGradientBody<BFloat16, 1>&, std::int64_t, void*);
template void launch(const NormGradientBody<BFloat16, 8>&, std::int64_t, void*);
template void launch(const RunningBody<float>&, std::int64_t, void*);
template void launch(const RunningBody<double>&, std::int64_t, void*);
}  // namespace tandem::cuda
