// Storage types of 16 bits, the same for nvcc and the host's compiler, and the type one computes in.
#pragma once
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/cuda/bodies/thread.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#else
#include <bit>
#include <cmath>
#endif

namespace tandem::cuda {

struct Half {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

template <class T>
struct ComputeType {
  using type = T;
};
template <>
struct ComputeType<Half> {
  using type = float;
};
template <>
struct ComputeType<BFloat16> {
  using type = float;
};
template <class T>
using Compute = typename ComputeType<T>::type;

#if defined(__CUDACC__)
TANDEM_DEVICE float to_float(Half h) { return __half2float(__ushort_as_half(h.bits)); }
TANDEM_DEVICE float to_float(BFloat16 b) { return __uint_as_float(static_cast<unsigned>(b.bits) << 16); }
TANDEM_DEVICE Half to_half(float v) { return {__half_as_ushort(__float2half_rn(v))}; }
TANDEM_DEVICE BFloat16 to_bfloat16(float v) { return {__bfloat16_as_ushort(__float2bfloat16_rn(v))}; }
#else
float to_float(Half h);
inline float to_float(BFloat16 b) { return std::bit_cast<float>(static_cast<std::uint32_t>(b.bits) << 16); }
Half to_half(float v);  // to the nearest, ties to even, as the device rounds
BFloat16 to_bfloat16(float v);
#endif

template <class T>
TANDEM_DEVICE Compute<T> load(const T& v) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return to_float(v);
  else
    return v;
}
template <class T>
TANDEM_DEVICE T store(Compute<T> v) {
  if constexpr (std::is_same_v<T, Half>)
    return to_half(v);
  else if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(v);
  else
    return v;
}

}  // namespace tandem::cuda
