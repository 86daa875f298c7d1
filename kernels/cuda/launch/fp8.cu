#include "kernels/cuda/bodies/fp8.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const QuantizeFp8Body&, std::int64_t, void*);
template void launch(const LargestBody&, std::int64_t, void*);
template void launch(const Fp8ScaleUpdateBody&, std::int64_t, void*);
}  // namespace tandem::cuda
