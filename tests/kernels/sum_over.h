// The exchange that data parallelism makes: a sum over all ranks of a group.
#pragma once
#include <numeric>

#include "kernels/collective.h"

namespace tandem::test {

inline ExchangeSpec sum_over(int ranks, std::int64_t elements, DType dtype, int channel = 0) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return {.kind = ExchangeKind::all_reduce, .members = all, .elements = elements, .dtype = dtype, .channel = channel};
}

}  // namespace tandem::test
