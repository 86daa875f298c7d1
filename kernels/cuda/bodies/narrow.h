// Elements of 16 bits whose type no template tells: those of tables of tensors.
#pragma once
#include "kernels/cuda/bodies/types.h"

namespace tandem::cuda {

enum class Narrow : std::uint8_t { bfloat16, float16 };
TANDEM_DEVICE float load_narrow(Narrow type, const void* x, std::int64_t i) {
  return type == Narrow::bfloat16 ? to_float(static_cast<const BFloat16*>(x)[i]) : to_float(static_cast<const Half*>(x)[i]);
}
TANDEM_DEVICE void store_narrow(Narrow type, void* y, std::int64_t i, float v) {
  if (type == Narrow::bfloat16)
    static_cast<BFloat16*>(y)[i] = to_bfloat16(v);
  else
    static_cast<Half*>(y)[i] = to_half(v);
}

}  // namespace tandem::cuda
