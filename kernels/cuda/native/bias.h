// What follows a convolution whose library could not fuse it.
#pragma once
#include "kernels/cuda/native/describe.h"

namespace tandem::cuda {

// output 0 = relu?(output 0 + input `bias`[c]) for an output laid out channels last; bias -1: none.
Binder bias_binder(const Operand& y, int bias, bool relu);
// output 0 = 0 where input `y`, which lies like it, is not positive.
Binder mask_binder(const Operand& dx, std::size_t y);

}  // namespace tandem::cuda
