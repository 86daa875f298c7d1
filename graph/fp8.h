// Delayed scaling of 8-bit floats: a tensor is multiplied by a power of two before it is rounded, chosen by the largest magnitudes that it
// had in the last steps, so that its numbers fill the type's range. What every backend computes of it is here. A power of two keeps all but
// the numbers below the type's normal range exact, and what is multiplied back fits bfloat16 without a rounding.
// Source: Micikevicius et al., "FP8 Formats for Deep Learning", 2022; the recipe is that of NVIDIA's Transformer Engine, which scales by
// largest / amax itself, not by the power of two below.
#pragma once
#include <cstring>

#include "graph/small_types.h"

namespace tandem {

// What a run keeps of one tensor; all zero at first, which scales by 1. The graph's state is rows of these, float32[tensors, count].
struct Fp8Row {
  static constexpr int length = 16;  // of the history
  float scale = 0;                   // 0: 1
  float history[length] = {};        // largest magnitudes, the newest first
  static constexpr int count = 1 + length;
};
static_assert(sizeof(Fp8Row) == Fp8Row::count * sizeof(float));

TANDEM_ANYWHERE float fp8_scale(const Fp8Row& row) { return row.scale == 0 ? 1.0F : row.scale; }

TANDEM_ANYWHERE std::uint32_t fp8_bits(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

// The largest power of two, as a float32 that has a normal inverse, by which `amax` (a positive number) stays within the type; 2^-margin of
// it.
// Both types' largest number is 1.75 · 2^k, k = 8 and 15.
TANDEM_ANYWHERE float fp8_scale_for(float amax, DType type, int margin) {
  constexpr std::uint32_t one_and_three_quarters = 0x600000U;  // of a significand, without its first bit
  const std::uint32_t bits = fp8_bits(amax);
  const int exponent = static_cast<int>(bits >> 23) - 127, largest = type == DType::float8e5m2 ? 15 : 8;
  int power = largest - exponent - ((bits & 0x7fffffU) > one_and_three_quarters ? 1 : 0) - margin;
  power = power > 126 ? 126 : power < -126 ? -126 : power;
  const std::uint32_t scale = static_cast<std::uint32_t>(power + 127) << 23;
  float number;
  std::memcpy(&number, &scale, sizeof number);
  return number;
}

// A step's largest magnitude goes into the history, whose largest says the next scale. One that is not finite changes nothing: the step is
// a bad one. A history of zeros leaves the scale.
TANDEM_ANYWHERE void next_scale(Fp8Row& row, float amax, DType type, int margin) {
  if (!(amax <= 3.4028234e38F)) return;
  float largest = amax;
  for (int i = Fp8Row::length - 1; i > 0; --i) {
    row.history[i] = row.history[i - 1];
    largest = row.history[i] > largest ? row.history[i] : largest;
  }
  row.history[0] = amax;
  if (largest > 0) row.scale = fp8_scale_for(largest, type, margin);
}

// A number, scaled, as the type has it: to the nearest, ties to even; beyond the largest, infinities too, the largest. NaN stays.
TANDEM_ANYWHERE std::uint8_t fp8_of(float x, float scale, DType type) {
  return small_of(fp8_bits(x * scale), type, {});
}

}  // namespace tandem
