// What kernels that read indices share: their types, and places that are never outside.
#pragma once
#include <limits>

#include "graph/half.h"
#include "kernels/cpu/native/native.h"

namespace tandem::native {

template <class F>
void visit_index(DType dtype, F&& f) {
  if (dtype == DType::int64) f.template operator()<std::int64_t>();
  if (dtype == DType::int32) f.template operator()<std::int32_t>();
}

// The index counted from the start; −1 where it is outside.
inline std::int64_t place(std::int64_t index, std::int64_t n) {
  if (index < 0) index += n;
  return index >= 0 && index < n ? index : -1;
}

// What is read where an index is outside: NaN, 0 for integers.
template <class T>
T missing() {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>)
    return number_as<T>(std::numeric_limits<float>::quiet_NaN());
  else
    return std::numeric_limits<T>::has_quiet_NaN ? std::numeric_limits<T>::quiet_NaN() : T(0);
}

}  // namespace tandem::native
