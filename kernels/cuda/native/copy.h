// Copies between strided operands as kernels are made of them.
#pragma once
#include <optional>

#include "kernels/cuda/native/describe.h"
#include "kernels/cuda/native/nest.h"

namespace tandem::cuda {

// A copy of elements of `size` bytes along loops with strides of (y, x); offsets in elements.
struct CopyPlan {
  std::vector<LoopDim> dims;
  std::size_t size = 4;
  std::int64_t x_offset = 0, y_offset = 0;
};
// Loops over `shape` with the strides of y and x.
CopyPlan copy_along(const Shape& shape, DType dtype, const std::vector<std::int64_t>& y, const std::vector<std::int64_t>& x);
// Chooses between wider units, tiles and single elements. Nothing where the loops are too many.
using CopyLauncher = std::function<Launches(const std::byte* x, std::byte* y)>;
std::optional<CopyLauncher> plan_copy(CopyPlan plan);
// A kernel that is one copy from input 0 to output 0; nothing where that takes too many loops.
inline constexpr double copy_efficiency = 0.7;
Descriptions describe_copy(KernelDescription d, const CopyPlan& plan);
// bytes = a repeated element.
Launches fill_launches(std::byte* y, std::int64_t elements, std::size_t size, std::uint64_t pattern);
// An element's bits of a number; 0 for types that are not numbers.
std::uint64_t pattern_of(DType dtype, double value);

}  // namespace tandem::cuda
