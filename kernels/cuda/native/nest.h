// Builds the loops of strided kernels: dimensions of size 1 dropped, those that every operand walks alike merged.
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "kernels/cuda/bodies/index.h"

namespace tandem::cuda {

struct LoopDim {
  std::int64_t size;
  std::vector<std::int64_t> strides;  // of each operand; 0 where it is repeated
};

Divider divider(std::int64_t divisor);  // of numbers below 2^31
// Sorted by operand 0's stride, largest first, and merged.
std::vector<LoopDim> ordered(std::vector<LoopDim> dims);
std::vector<LoopDim> merged(std::vector<LoopDim> dims);  // in the given order
std::int64_t trips(const std::vector<LoopDim>& dims);

// The loops with the strides of `operands` (by their place in LoopDim::strides). Nothing where there are too many.
template <int K>
std::optional<Nest<K>> nest_of(const std::vector<LoopDim>& dims, const std::array<int, K>& operands) {
  if (dims.size() > max_dims) return std::nullopt;
  Nest<K> n;
  n.rank = static_cast<int>(dims.size());
  for (std::size_t d = 0; d < dims.size(); ++d) {
    n.sizes[d] = divider(dims[d].size);
    for (std::size_t k = 0; k < K; ++k) n.strides[k][d] = static_cast<std::int32_t>(dims[d].strides[static_cast<std::size_t>(operands[k])]);
  }
  return n;
}

}  // namespace tandem::cuda
