// The number format of a plan: of activations, their gradients and the operands of convolutions and products. Weights,
// optimizer state, statistics and losses are float32 in all of them (planner/precision/mixed_precision.cpp).
#pragma once
#include <string_view>

#include "graph/dtype.h"

namespace tandem {

enum class Precision {
  fp32,
  tf32,  // float32 whose products may be rounded to TF32
  bf16,
  fp16,
  fp8,   // bf16, and products by weights in 8 bits (planner/precision/choose_fp8.cpp). Experimental
};
inline constexpr Precision precisions[] = {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16, Precision::fp8};

constexpr std::string_view name_of(Precision p) {
  constexpr std::string_view names[] = {"fp32", "tf32", "bf16", "fp16", "fp8"};
  return names[static_cast<int>(p)];
}
inline std::string to_string(Precision p) { return std::string(name_of(p)); }
inline std::string text_of(Precision p) { return to_string(p); }

// What the 16-bit values of a plan are stored as; float32 where it has none.
constexpr DType storage_of(Precision p) {
  return p == Precision::bf16 || p == Precision::fp8 ? DType::bfloat16 : p == Precision::fp16 ? DType::float16 : DType::float32;
}
constexpr bool is_16_bit(DType t) { return t == DType::bfloat16 || t == DType::float16; }

}  // namespace tandem
