// Drops and merges loops, and prepares their divisions.
#include "kernels/cuda/native/nest.h"

#include <algorithm>

namespace tandem::cuda {

Divider divider(std::int64_t divisor) {
  const auto d = static_cast<std::uint32_t>(std::max<std::int64_t>(1, divisor));  // of an axis without elements nothing is divided
  std::uint32_t shift = 0;
  while (shift < 32 && (std::uint64_t{1} << shift) < d) ++shift;
  const std::uint64_t multiplier = ((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - d)) / d + 1;
  return {d, static_cast<std::uint32_t>(multiplier), shift};
}

std::vector<LoopDim> merged(std::vector<LoopDim> dims) {
  std::vector<LoopDim> out;
  for (LoopDim& d : dims) {
    if (d.size == 1) continue;
    const auto continues = [&] {
      for (std::size_t k = 0; k < d.strides.size(); ++k)
        if (out.back().strides[k] != d.strides[k] * d.size) return false;
      return true;
    };
    if (!out.empty() && continues()) {
      out.back().size *= d.size;
      out.back().strides = d.strides;
    } else {
      out.push_back(std::move(d));
    }
  }
  return out;
}

std::vector<LoopDim> ordered(std::vector<LoopDim> dims) {
  std::stable_sort(dims.begin(), dims.end(), [](const LoopDim& a, const LoopDim& b) { return a.strides[0] > b.strides[0]; });
  return merged(std::move(dims));
}

std::int64_t trips(const std::vector<LoopDim>& dims) {
  std::int64_t n = 1;
  for (const LoopDim& d : dims) n *= d.size;
  return n;
}

}  // namespace tandem::cuda
