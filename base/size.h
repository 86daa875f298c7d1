// A size, count or place that follows from what a file or a user says: 64 bits, and an Error where a result does not fit in them.
#pragma once
#include <compare>
#include <cstdint>
#include <limits>

#include "base/error.h"

namespace tandem {

// What libraries count in: no axis, batch or reach of a window is longer.
inline constexpr std::int64_t longest_axis = std::numeric_limits<std::int32_t>::max();

class Size {
 public:
  constexpr Size(std::int64_t value) : value_(value) {}  // numbers are sizes: a sum with one Size in it is checked
  constexpr std::int64_t value() const { return value_; }
  friend Size operator+(Size a, Size b) { return a.with(b, '+', [](auto x, auto y, auto* z) { return __builtin_add_overflow(x, y, z); }); }
  friend Size operator-(Size a, Size b) { return a.with(b, '-', [](auto x, auto y, auto* z) { return __builtin_sub_overflow(x, y, z); }); }
  friend Size operator*(Size a, Size b) { return a.with(b, '*', [](auto x, auto y, auto* z) { return __builtin_mul_overflow(x, y, z); }); }
  friend Size operator/(Size a, std::int64_t positive) { return a.value_ / positive; }
  friend constexpr auto operator<=>(Size, Size) = default;

 private:
  template <class Compute>
  Size with(Size other, char sign, const Compute& compute) const {
    std::int64_t result = 0;
    if (compute(value_, other.value_, &result)) fail("a size of ", value_, ' ', sign, ' ', other.value_, " does not fit in 63 bits");
    return result;
  }
  std::int64_t value_;
};

}  // namespace tandem
