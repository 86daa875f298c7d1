// Floats that fit a register of the machine, and bfloat16 read and written as such.
#pragma once
#include <cstdint>

namespace tandem::vector::TANDEM_ISA {
namespace {

#if defined(__AVX512F__)
constexpr int lanes = 16;
#elif defined(__AVX2__)
constexpr int lanes = 8;
#else
constexpr int lanes = 4;
#endif
using Lanes [[gnu::vector_size(lanes * sizeof(float)), gnu::aligned(alignof(float)), gnu::may_alias]] = float;
using Words [[gnu::vector_size(lanes * sizeof(std::uint32_t)), gnu::aligned(alignof(float)), gnu::may_alias]] = std::uint32_t;
using Halves [[gnu::vector_size(lanes * sizeof(std::uint16_t)), gnu::aligned(alignof(std::uint16_t)), gnu::may_alias]] = std::uint16_t;

inline Lanes widen(Halves h) { return __builtin_bit_cast(Lanes, __builtin_convertvector(h, Words) << 16); }
inline Halves narrow(Lanes v) {
  const Words b = __builtin_bit_cast(Words, v);
  const Words rounded = (b + 0x7fffu + (b >> 16 & 1u)) >> 16, quiet = b >> 16 | 0x40u;
  return __builtin_convertvector((b & 0x7fffffffu) > 0x7f800000u ? quiet : rounded, Halves);
}

inline Lanes load(const float* p) { return *reinterpret_cast<const Lanes*>(p); }
inline Lanes load(const std::uint16_t* p) { return widen(*reinterpret_cast<const Halves*>(p)); }
inline void store(float* p, Lanes v) { *reinterpret_cast<Lanes*>(p) = v; }
inline void store(std::uint16_t* p, Lanes v) { *reinterpret_cast<Halves*>(p) = narrow(v); }

}  // namespace
}  // namespace tandem::vector::TANDEM_ISA
