#include "kernels/cuda/bodies/pair_sums.h"
#include "kernels/cuda/bodies/row_normalization.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const RowNormalizationBody<float, 1, 128>&, std::int64_t, void*);
template void launch(const RowNormalizationBody<float, 4, 32>&, std::int64_t, void*);
template void launch(const RowNormalizationBody<float, 4, 256>&, std::int64_t, void*);
template void launch(const RowNormalizationBody<double, 1, 128>&, std::int64_t, void*);
template void launch(const RowNormalizationBody<Half, 1, 128>&, std::int64_t, void*);
template void launch(const RowNormalizationBody<Half, 8, 32>&, std::int64_t, void*);
template void launch(const RowNormalizationBody<Half, 8, 256>&, std::int64_t, void*);
template void launch(const RowNormalizationBody<BFloat16, 1, 128>&, std::int64_t, void*);
template void launch(const RowNormalizationBody<BFloat16, 8, 32>&, std::int64_t, void*);
template void launch(const RowNormalizationBody<BFloat16, 8, 256>&, std::int64_t, void*);
template void launch(const RowGradientBody<float, 1, 128>&, std::int64_t, void*);
template void launch(const RowGradientBody<float, 4, 32>&, std::int64_t, void*);
template void launch(const RowGradientBody<float, 4, 256>&, std::int64_t, void*);
template void launch(const RowGradientBody<double, 1, 128>&, std::int64_t, void*);
template void launch(const RowGradientBody<Half, 1, 128>&, std::int64_t, void*);
template void launch(const RowGradientBody<Half, 8, 32>&, std::int64_t, void*);
template void launch(const RowGradientBody<Half, 8, 256>&, std::int64_t, void*);
template void launch(const RowGradientBody<BFloat16, 1, 128>&, std::int64_t, void*);
template void launch(const RowGradientBody<BFloat16, 8, 32>&, std::int64_t, void*);
template void launch(const RowGradientBody<BFloat16, 8, 256>&, std::int64_t, void*);
template void launch(const RowSumsBody<float>&, std::int64_t, void*);
template void launch(const RowSumsBody<double>&, std::int64_t, void*);
template void launch(const RowSumsBody<Half>&, std::int64_t, void*);
template void launch(const RowSumsBody<BFloat16>&, std::int64_t, void*);
template void launch(const PairSumsBody<float>&, std::int64_t, void*);
template void launch(const PairSumsBody<double>&, std::int64_t, void*);
template void launch(const RowNormalizationBody<float, 1, 128, Half, float>&, std::int64_t, void*);
template void launch(const RowNormalizationBody<float, 1, 128, Half, Half>&, std::int64_t, void*);
template void launch(const RowGradientBody<float, 1, 128, Half>&, std::int64_t, void*);
template void launch(const RowNormalizationBody<float, 4, 32, Half, float>&, std::int64_t, void*);
template void launch(const RowNormalizationBody<float, 4, 32, Half, Half>&, std::int64_t, void*);
template void launch(const RowGradientBody<float, 4, 32, Half>&, std::int64_t, void*);
template void launch(const RowNormalizationBody<float, 4, 256, Half, float>&, std::int64_t, void*);
template void launch(const RowNormalizationBody<float, 4, 256, Half, Half>&, std::int64_t, void*);
template void launch(const RowGradientBody<float, 4, 256, Half>&, std::int64_t, void*);
template void launch(const RowSumsBody<float, Half>&, std::int64_t, void*);
template void launch(const RowNormalizationBody<float, 1, 128, BFloat16, float>&, std::int64_t, void*);
template void launch(const RowNormalizationBody<float, 1, 128, BFloat16, BFloat16>&, std::int64_t, void*);
template void launch(const RowGradientBody<float, 1, 128, BFloat16>&, std::int64_t, void*);
template void launch(const RowNormalizationBody<float, 4, 32, BFloat16, float>&, std::int64_t, void*);
template void launch(const RowNormalizationBody<float, 4, 32, BFloat16, BFloat16>&, std::int64_t, void*);
template void launch(const RowGradientBody<float, 4, 32, BFloat16>&, std::int64_t, void*);
template void launch(const RowNormalizationBody<float, 4, 256, BFloat16, float>&, std::int64_t, void*);
template void launch(const RowNormalizationBody<float, 4, 256, BFloat16, BFloat16>&, std::int64_t, void*);
template void launch(const RowGradientBody<float, 4, 256, BFloat16>&, std::int64_t, void*);
template void launch(const RowSumsBody<float, BFloat16>&, std::int64_t, void*);
template void launch(const RowGradientBody<float, 1, 128, float, Half>&, std::int64_t, void*);
template void launch(const RowGradientBody<float, 4, 32, float, Half>&, std::int64_t, void*);
template void launch(const RowGradientBody<float, 4, 256, float, Half>&, std::int64_t, void*);
template void launch(const RowSumsBody<float, float, Half>&, std::int64_t, void*);
template void launch(const RowGradientBody<float, 1, 128, float, BFloat16>&, std::int64_t, void*);
template void launch(const RowGradientBody<float, 4, 32, float, BFloat16>&, std::int64_t, void*);
template void launch(const RowGradientBody<float, 4, 256, float, BFloat16>&, std::int64_t, void*);
template void launch(const RowSumsBody<float, float, BFloat16>&, std::int64_t, void*);
}  // namespace tandem::cuda
