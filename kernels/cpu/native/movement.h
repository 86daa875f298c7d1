// What a Slice takes of each axis of x.
#pragma once
#include "kernels/cpu/rows.h"

namespace tandem::native {

struct SliceAxis {
  std::int64_t start, step, size;
};
std::vector<SliceAxis> slice_axes(const Attributes& attributes, const Shape& x, const Shape& y);

}  // namespace tandem::native
