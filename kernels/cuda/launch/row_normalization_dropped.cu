#include "kernels/cuda/bodies/row_normalization.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
// A body that drops, in all forms of visit_rows (native/row_normalization.cpp) for packs of float32, with the types of its operands.
#define DROPPED_ROWS(Body, A, B)                                                      \
  template void launch(const Body<float, 4, 32, 4, A, B, true>&, std::int64_t, void*);  \
  template void launch(const Body<float, 4, 32, 6, A, B, true>&, std::int64_t, void*);  \
  template void launch(const Body<float, 4, 32, 8, A, B, true>&, std::int64_t, void*);  \
  template void launch(const Body<float, 4, 128, 4, A, B, true>&, std::int64_t, void*); \
  template void launch(const Body<float, 4, 256, 4, A, B, true>&, std::int64_t, void*); \
  template void launch(const Body<float, 4, 512, 4, A, B, true>&, std::int64_t, void*);
DROPPED_ROWS(RowNormalizationBody, float, float)
DROPPED_ROWS(RowNormalizationBody, Half, float)
DROPPED_ROWS(RowNormalizationBody, Half, Half)
DROPPED_ROWS(RowNormalizationBody, BFloat16, float)
DROPPED_ROWS(RowNormalizationBody, BFloat16, BFloat16)
DROPPED_ROWS(RowGradientBody, float, float)
DROPPED_ROWS(RowGradientBody, Half, Half)
DROPPED_ROWS(RowGradientBody, BFloat16, BFloat16)
DROPPED_ROWS(RowGradientBody, float, Half)
DROPPED_ROWS(RowGradientBody, float, BFloat16)
#undef DROPPED_ROWS
}  // namespace tandem::cuda
