// Element types of 8 bits and less, as the bits of a float32 and back: what is one number here is ONNX's operator Cast's table, on the host
// and on a GPU. https://onnx.ai/onnx/technical/float8.html, the OCP's Microscaling Formats 1.0.
#pragma once
#include <cstdint>
#include <span>

#include "graph/dtype.h"

#if defined(__CUDACC__)
#define TANDEM_ANYWHERE __host__ __device__ inline
#else
#define TANDEM_ANYWHERE inline
#endif

namespace tandem {

enum class RoundMode : std::uint8_t { up, down, nearest };  // of float8e8m0 alone; up: away from zero, nearest: ties go up

// How Cast takes a number that the type does not hold. The others than float8e8m0 round to the nearest, ties to even.
struct SmallRounding {
  bool saturate = true;  // to the largest; else to infinity or NaN, where the type has it
  RoundMode mode = RoundMode::up;
};

// A sign, `exponent` and `mantissa` bits. Codes without their sign: `largest` is the last finite one, `infinity` 0 where there is none;
// `nan` has its sign in it. Without a NaN it stands for what NaN becomes.
struct SmallFormat {
  int exponent, mantissa, bias;
  std::uint8_t largest, infinity, nan;
  bool has_nan, negative_zero;
};

TANDEM_ANYWHERE SmallFormat format_of(DType t) {
  switch (t) {
    case DType::float8e4m3fn: return {4, 3, 7, 0x7e, 0, 0x7f, true, true};
    case DType::float8e4m3fnuz: return {4, 3, 8, 0x7f, 0, 0x80, true, false};
    case DType::float8e5m2: return {5, 2, 15, 0x7b, 0x7c, 0x7f, true, true};
    case DType::float8e5m2fnuz: return {5, 2, 16, 0x7f, 0, 0x80, true, false};
    case DType::float6e2m3: return {2, 3, 1, 0x1f, 0, 0x20, false, true};
    case DType::float6e3m2: return {3, 2, 3, 0x1f, 0, 0x20, false, true};
    default: return {2, 1, 1, 0x07, 0, 0x08, false, true};  // float4e2m1
  }
}

TANDEM_ANYWHERE std::uint32_t bits_of_e8m0(std::uint8_t code) {
  if (code == 0xff) return 0x7fc00000U;
  return code == 0 ? 0x00400000U : static_cast<std::uint32_t>(code) << 23;
}

// Below zero there is nothing: NaN.
TANDEM_ANYWHERE std::uint8_t e8m0_of(std::uint32_t bits, SmallRounding r) {
  constexpr std::uint32_t least = 0x00400000U, infinity = 0x7f800000U;  // 2⁻¹²⁷ is below the normal numbers of float32
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > infinity || (bits != magnitude && magnitude != 0)) return 0xff;
  if (magnitude < least) return r.saturate ? 0 : 0xff;
  const bool subnormal = magnitude < 0x00800000U;
  const std::uint32_t below = subnormal ? magnitude - least : magnitude & 0x007fffffU;  // over the power of two below
  const std::uint32_t half = subnormal ? 0x00200000U : 0x00400000U;
  const bool upwards = r.mode == RoundMode::up ? below != 0 : r.mode == RoundMode::nearest && below >= half;
  const std::uint32_t code = (magnitude >> 23) + (upwards ? 1U : 0U);
  if (magnitude == infinity || code > 0xfe) return r.saturate ? 0xfe : 0xff;
  return static_cast<std::uint8_t>(code);
}

// A small type's element as the bits of a float32, which holds all their values.
TANDEM_ANYWHERE std::uint32_t float_bits_of(std::uint8_t code, DType t) {
  if (t == DType::float8e8m0) return bits_of_e8m0(code);
  const SmallFormat f = format_of(t);
  const int width = f.exponent + f.mantissa;
  const std::uint32_t magnitude = code & ((1U << width) - 1U), sign = static_cast<std::uint32_t>(code >> width & 1) << 31;
  if (!f.negative_zero && code == f.nan) return 0x7fc00000U;
  if (f.infinity != 0 && magnitude == f.infinity) return sign | 0x7f800000U;
  if (magnitude > f.largest) return sign | 0x7fc00000U;
  if (magnitude == 0) return sign;
  int exponent = static_cast<int>(magnitude >> f.mantissa);
  std::uint32_t fraction = magnitude & ((1U << f.mantissa) - 1U);
  if (exponent == 0) {
    for (exponent = 1; (fraction >> f.mantissa) == 0; --exponent) fraction <<= 1;
    fraction &= (1U << f.mantissa) - 1U;
  }
  return sign | static_cast<std::uint32_t>(exponent - f.bias + 127) << 23 | fraction << (23 - f.mantissa);
}

// The element of a small type of floats that Cast makes of a float32's bits.
TANDEM_ANYWHERE std::uint8_t small_of(std::uint32_t bits, DType t, SmallRounding r) {
  if (t == DType::float8e8m0) return e8m0_of(bits, r);
  const SmallFormat f = format_of(t);
  const std::uint32_t magnitude = bits & 0x7fffffffU, sign = (bits >> 31) << (f.exponent + f.mantissa);
  if (magnitude > 0x7f800000U) return static_cast<std::uint8_t>(f.has_nan && f.negative_zero ? f.nan | sign : f.nan);
  std::uint32_t code = f.largest + 1U;
  if (magnitude < 0x7f800000U) {
    const int exponent = static_cast<int>(magnitude >> 23) - 127, lowest = 1 - f.bias;
    const int shift = 23 - f.mantissa + (exponent < lowest ? lowest - exponent : 0);
    const std::uint32_t significand = (magnitude & 0x007fffffU) | 0x00800000U;
    code = shift > 25 ? 0 : (significand + ((1U << (shift - 1)) - 1U) + ((significand >> shift) & 1U)) >> shift;
    if (exponent >= lowest) code += static_cast<std::uint32_t>(exponent - lowest) << f.mantissa;
  }
  if (code > f.largest) {
    if (r.saturate || !f.has_nan) code = f.largest;
    else if (f.infinity != 0) code = f.infinity;
    else return static_cast<std::uint8_t>(f.negative_zero ? f.nan | sign : f.nan);
  }
  return static_cast<std::uint8_t>(code == 0 && !f.negative_zero ? 0U : code | sign);
}

// The low bits of an integer as a small integer type has them; a signed one keeps its sign.
TANDEM_ANYWHERE std::uint8_t low_bits(std::int64_t v, DType t) {
  const int width = t == DType::int4 || t == DType::uint4 ? 4 : 2;
  const int low = static_cast<int>(v & ((1 << width) - 1));
  const bool negative = (t == DType::int4 || t == DType::int2) && (low >> (width - 1)) != 0;
  return static_cast<std::uint8_t>(negative ? low - (1 << width) : low);
}

class Attributes;
SmallRounding rounding_of(const Attributes& attributes);                  // Cast's saturate and round_mode; fails for another mode
double number_of(std::uint8_t element, DType t);                          // what an element in memory is
std::span<const float, 256> numbers_of(DType t);                          // the same of every byte, exactly
std::uint8_t element_of(double v, DType t, SmallRounding rounding = {});  // as Cast gives it; of NaN an integer is 0

}  // namespace tandem
