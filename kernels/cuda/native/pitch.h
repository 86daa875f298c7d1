// Copies of rows of 16-bit numbers between memories whose rows lie at other distances.
#pragma once
#include "kernels/cuda/native/describe.h"

namespace tandem::cuda {

struct PitchCopy {
  std::int64_t rows, width, from, to;  // numbers; from, to: between the beginnings of two rows
};
// What lies between two rows of `to` becomes zeros. The memory written begins at a multiple of 16 bytes; rows·to is below 2³¹.
Launches pitch_copy(const PitchCopy& copy, const std::byte* x, std::byte* y);

}  // namespace tandem::cuda
