// Where the lines along an axis begin, and how far apart their elements lie.
#include "kernels/cuda/native/lines.h"

#include "kernels/cuda/native/describe.h"

namespace tandem::cuda {

Lines lines_of(const Operand& x, int axis) {
  const std::vector<std::int64_t> strides = strides_of(x);
  Lines lines{x.shape[axis], strides[static_cast<std::size_t>(axis)], {}};
  for (std::size_t d = 0; d < strides.size(); ++d)
    if (static_cast<int>(d) != axis) lines.others.push_back({x.shape.dims[d], {strides[d], strides[d]}});
  lines.others = ordered(std::move(lines.others));
  return lines;
}

}  // namespace tandem::cuda
