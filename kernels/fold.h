// Sums, and the largest, of each element of several values, in the values' order, which gives the same bits wherever they come from.
#pragma once
#include <algorithm>
#include <cstring>
#include <span>

#include "graph/dtype.h"

namespace tandem {

// Folds `elements` elements of each of `from` and writes them to each of `to`, which may be some of `from`.
using Fold = void (*)(std::span<const std::byte* const> from, std::span<std::byte* const> to, std::int64_t elements);

template <class T, bool largest>
void fold(std::span<const std::byte* const> from, std::span<std::byte* const> to, std::int64_t elements) {
  constexpr std::int64_t block = 1024;  // stays in the first-level cache
  T folded[block];
  for (std::int64_t at = 0; at < elements; at += block) {
    const std::int64_t n = std::min(block, elements - at);
    const auto bytes = static_cast<std::size_t>(n) * sizeof(T);
    std::memcpy(folded, reinterpret_cast<const T*>(from[0]) + at, bytes);
    for (std::size_t m = 1; m < from.size(); ++m) {
      const T* x = reinterpret_cast<const T*>(from[m]) + at;
      for (std::int64_t i = 0; i < n; ++i) folded[i] = largest ? std::max(folded[i], x[i]) : folded[i] + x[i];
    }
    for (std::byte* whole : to) std::memcpy(reinterpret_cast<T*>(whole) + at, folded, bytes);
  }
}

inline Fold fold_of(DType dtype, bool largest) {
  return visit_float(dtype, [&]<class T>() -> Fold { return largest ? fold<T, true> : fold<T, false>; });
}

}  // namespace tandem
