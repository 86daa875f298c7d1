#include "kernels/cuda/bodies/random_numbers.h"
#include "kernels/cuda/launch/definition.h"

namespace tandem::cuda {
template void launch(const RandomNumbersBody<float>&, std::int64_t, void*);
template void launch(const RandomNumbersBody<double>&, std::int64_t, void*);
}  // namespace tandem::cuda
