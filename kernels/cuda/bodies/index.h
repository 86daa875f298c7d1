// From a linear index to addresses of strided operands, with divisions by multiplication.
#pragma once
#include <cstdint>

#include "kernels/cuda/bodies/thread.h"

namespace tandem::cuda {

inline constexpr int max_dims = 8;

// n / divisor for n < 2^31 (Granlund and Montgomery, "Division by invariant integers using multiplication", 1994).
struct Divider {
  std::uint32_t divisor = 1, multiplier = 0, shift = 0;
  TANDEM_DEVICE std::uint32_t divide(std::uint32_t n) const {
    const std::uint32_t high = static_cast<std::uint32_t>((static_cast<std::uint64_t>(n) * multiplier) >> 32);
    return (high + n) >> shift;
  }
};

// Loops over `rank` dimensions, the last innermost, and what each step moves in each of K operands (elements).
template <int K>
struct Nest {
  int rank = 0;
  Divider sizes[max_dims];
  std::int32_t strides[K][max_dims] = {};
  std::int64_t base[K] = {};

  TANDEM_DEVICE void offsets(std::uint32_t index, std::int64_t (&out)[K]) const {
    for (int k = 0; k < K; ++k) out[k] = base[k];
    for (int d = rank - 1; d > 0; --d) {
      const std::uint32_t rest = sizes[d].divide(index);
      const std::int32_t i = static_cast<std::int32_t>(index - rest * sizes[d].divisor);
      for (int k = 0; k < K; ++k) out[k] += static_cast<std::int64_t>(i) * strides[k][d];
      index = rest;
    }
    if (rank > 0)
      for (int k = 0; k < K; ++k) out[k] += static_cast<std::int64_t>(index) * strides[k][0];
  }
  TANDEM_DEVICE std::int64_t offset(std::uint32_t index) const
    requires(K == 1)
  {
    std::int64_t out[1];
    offsets(index, out);
    return out[0];
  }
};

}  // namespace tandem::cuda
