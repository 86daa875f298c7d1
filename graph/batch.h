// Where the samples of a batch lie in a value, and how they pass through an operator.
#pragma once
#include <cstdint>

namespace tandem {

// Dimension `axis` is outer * batch * inner. In row-major order the samples lie inside of `outer` and of the axes before:
// the product of those is the same for every view of the same elements.
struct BatchPlace {
  int axis = -1;           // -1: the value holds no samples
  std::int64_t outer = 1;
  bool mixed = false;      // computed from all samples at once (a mean loss): it holds none of them any more
  bool present() const { return axis >= 0; }
  bool leading(std::int64_t dim, std::int64_t batch) const { return axis == 0 && dim == batch; }  // one row a sample
  bool operator==(const BatchPlace&) const = default;
};

}  // namespace tandem
