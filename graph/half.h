// The 16-bit floating-point types, and conversions between all number types.
#pragma once
#include <bit>
#include <cmath>
#include <limits>

#include "graph/dtype.h"

namespace tandem {

struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

template <>
constexpr DType dtype_of<Float16>() { return DType::float16; }
template <>
constexpr DType dtype_of<BFloat16>() { return DType::bfloat16; }

inline float to_float(BFloat16 v) { return std::bit_cast<float>(static_cast<std::uint32_t>(v.bits) << 16); }
inline float to_float(Float16 v) {
  const std::uint32_t sign = (v.bits & 0x8000u) << 16, exponent = (v.bits >> 10) & 31u, fraction = v.bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: fraction · 2⁻²⁴
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide = exponent == 31 ? 255u : exponent + 112u;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

// To the nearest, ties to even.
inline BFloat16 to_bfloat16(float f) {
  const std::uint32_t b = std::bit_cast<std::uint32_t>(f);
  if (f != f) return {static_cast<std::uint16_t>(b >> 16 | 0x40u)};
  return {static_cast<std::uint16_t>((b + 0x7fffu + (b >> 16 & 1u)) >> 16)};
}
inline Float16 to_float16(float f) {
  const std::uint32_t b = std::bit_cast<std::uint32_t>(f), sign = b >> 16 & 0x8000u, magnitude = b & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};  // rounds to 2¹⁶ or more
  if (magnitude < 0x38800000u) {  // subnormal: adding ½ leaves the fraction, rounded, in the low bits
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u))};
  }
  const std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return {static_cast<std::uint16_t>(sign | ((rounded >> 13) - (112u << 10)))};
}

// Floats to integers round towards zero; what does not fit gives the nearest end, NaN 0.
template <class To, class From>
To number_as(From v) {
  if constexpr (std::is_same_v<From, Float16> || std::is_same_v<From, BFloat16>) {
    return number_as<To>(to_float(v));
  } else if constexpr (std::is_same_v<To, Float16>) {
    return to_float16(static_cast<float>(v));
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return to_bfloat16(static_cast<float>(v));
  } else if constexpr (std::is_same_v<To, bool>) {
    return v != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (v != v) return To{0};
    if (v <= static_cast<From>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    if (v >= static_cast<From>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    return static_cast<To>(v);
  } else {
    return static_cast<To>(v);
  }
}

// visit_storable(dtype, [&]<class T>() { ... }): as visit_number, with the 16-bit floats; nothing is called for others, small types among
// them.
template <class F>
void visit_storable(DType dtype, F&& f) {
  if (dtype == DType::float16)
    f.template operator()<Float16>();
  else if (dtype == DType::bfloat16)
    f.template operator()<BFloat16>();
  else if (size_of(dtype) != 0 && !is_small(dtype))
    visit_number(dtype, f);
}

}  // namespace tandem
