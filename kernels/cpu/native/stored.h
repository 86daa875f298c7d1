// Numbers as memory holds them and as they are computed with: bfloat16 is computed with in float32.
#pragma once
#include <algorithm>
#include <type_traits>

#include "graph/half.h"
#include "kernels/cpu/isa.h"

namespace tandem::native {

// visit_stored(dtype, [&]<class Stored, class T>() { ... }): as memory holds it, and as it is computed with.
template <class F>
bool visit_stored(DType dtype, F&& f) {
  if (dtype == DType::float32) return f.template operator()<float, float>(), true;
  if (dtype == DType::float64) return f.template operator()<double, double>(), true;
  if (dtype == DType::bfloat16) return f.template operator()<BFloat16, float>(), true;
  return false;
}

template <class Stored, class T>
void widen(const vector::Table& table, T* to, const Stored* from, std::int64_t n) {
  if constexpr (std::is_same_v<Stored, T>)
    std::copy_n(from, n, to);
  else
    table.widen_bfloat16(to, from, nullptr, nullptr, n, nullptr);
}
template <class Stored, class T>
void narrow(const vector::Table& table, Stored* to, const T* from, std::int64_t n) {
  if constexpr (std::is_same_v<Stored, T>)
    std::copy_n(from, n, to);
  else
    table.narrow_bfloat16(to, from, nullptr, nullptr, n, nullptr);
}

}  // namespace tandem::native
