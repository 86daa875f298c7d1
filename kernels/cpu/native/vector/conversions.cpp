// bfloat16, the upper half of a float32, to and from float32: to the nearest, ties to even; NaN stays NaN.
#include "kernels/cpu/native/vector/parts.h"

namespace tandem::vector::TANDEM_ISA {

void widen_bfloat16(void* y, const void* a, const void*, const void*, std::int64_t n, const double*) {
  std::uint32_t* const out = static_cast<std::uint32_t*>(y);
  const std::uint16_t* const in = static_cast<const std::uint16_t*>(a);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<std::uint32_t>(in[i]) << 16;
}

void narrow_bfloat16(void* y, const void* a, const void*, const void*, std::int64_t n, const double*) {
  std::uint16_t* const out = static_cast<std::uint16_t*>(y);
  const std::uint32_t* const in = static_cast<const std::uint32_t*>(a);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t b = in[i], rounded = (b + 0x7fffu + (b >> 16 & 1u)) >> 16, quiet = b >> 16 | 0x40u;
    out[i] = static_cast<std::uint16_t>((b & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  }
}

}  // namespace tandem::vector::TANDEM_ISA
