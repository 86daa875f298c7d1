#include "kernels/cuda/bodies/pair_sums.h"
#include "kernels/cuda/bodies/row_normalization.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
// A body in all forms of visit_rows (native/row_normalization.cpp), with the further types of its operands.
#define ROW_BODIES(Body, T, ...)                                                                                                        \
  template void launch(const Body<T, 1, 128, 4 __VA_OPT__(, ) __VA_ARGS__>&, std::int64_t, void*);                                      \
  template void launch(const Body<T, full_pack<T>, 32, 16 / full_pack<T> __VA_OPT__(, ) __VA_ARGS__>&, std::int64_t, void*);  \
  template void launch(const Body<T, full_pack<T>, 32, 24 / full_pack<T> __VA_OPT__(, ) __VA_ARGS__>&, std::int64_t, void*);  \
  template void launch(const Body<T, full_pack<T>, 32, 32 / full_pack<T> __VA_OPT__(, ) __VA_ARGS__>&, std::int64_t, void*);  \
  template void launch(const Body<T, full_pack<T>, 128, 16 / full_pack<T> __VA_OPT__(, ) __VA_ARGS__>&, std::int64_t, void*); \
  template void launch(const Body<T, full_pack<T>, 256, 16 / full_pack<T> __VA_OPT__(, ) __VA_ARGS__>&, std::int64_t, void*); \
  template void launch(const Body<T, full_pack<T>, 512, 16 / full_pack<T> __VA_OPT__(, ) __VA_ARGS__>&, std::int64_t, void*);
ROW_BODIES(RowNormalizationBody, float)
ROW_BODIES(RowNormalizationBody, float, Half, float)
ROW_BODIES(RowNormalizationBody, float, Half, Half)
ROW_BODIES(RowNormalizationBody, float, BFloat16, float)
ROW_BODIES(RowNormalizationBody, float, BFloat16, BFloat16)
ROW_BODIES(RowNormalizationBody, Half)
ROW_BODIES(RowNormalizationBody, BFloat16)
template void launch(const RowNormalizationBody<double, 1, 128, 4>&, std::int64_t, void*);
ROW_BODIES(RowGradientBody, float)
ROW_BODIES(RowGradientBody, float, Half)
ROW_BODIES(RowGradientBody, float, BFloat16)
ROW_BODIES(RowGradientBody, float, float, Half)
ROW_BODIES(RowGradientBody, float, float, BFloat16)
ROW_BODIES(RowGradientBody, Half)
ROW_BODIES(RowGradientBody, BFloat16)
template void launch(const RowGradientBody<double, 1, 128, 4>&, std::int64_t, void*);
#undef ROW_BODIES

#define ROW_SUMS(...) template void launch(const RowSumsBody<__VA_ARGS__>&, std::int64_t, void*);
ROW_SUMS(float)
ROW_SUMS(float, Half)
ROW_SUMS(float, BFloat16)
ROW_SUMS(float, float, Half)
ROW_SUMS(float, float, BFloat16)
ROW_SUMS(double)
ROW_SUMS(Half)
ROW_SUMS(BFloat16)
#undef ROW_SUMS
template void launch(const PairSumsBody<float>&, std::int64_t, void*);
template void launch(const PairSumsBody<double>&, std::int64_t, void*);
}  // namespace tandem::cuda
