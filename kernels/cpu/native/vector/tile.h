// A square of 32-bit elements in registers, turned over.
#pragma once
#include <cstdint>
#include <utility>

namespace tandem::vector::TANDEM_ISA {
namespace {

#if defined(__AVX512BW__)
constexpr int tile_size = 16;
#elif defined(__AVX2__)
constexpr int tile_size = 8;
#else
constexpr int tile_size = 4;
#endif

using TileRow [[gnu::vector_size(tile_size * 4), gnu::aligned(4), gnu::may_alias]] = std::uint32_t;
using TileRegister [[gnu::vector_size(tile_size * 4)]] = std::uint32_t;

// Element i of the result is element at[i] of a and b, one behind the other.
template <std::uint32_t... at>
inline TileRegister shuffle(TileRegister a, TileRegister b) {
#if defined(__clang__)
  return __builtin_shufflevector(a, b, static_cast<int>(at)...);
#else
  return __builtin_shuffle(a, b, TileRegister{at...});
#endif
}

// In blocks of `width`: what lies above the diagonal of each block of twice that changes places with what lies below.
template <int width, std::uint32_t... k>
inline void turn_blocks(TileRegister (&rows)[tile_size], std::integer_sequence<std::uint32_t, k...>) {
#pragma GCC unroll 16
  for (int i = 0; i < tile_size; ++i) {
    if ((i & width) != 0) continue;
    const TileRegister a = rows[i], b = rows[i + width];
    rows[i] = shuffle<((k & width) == 0 ? k : tile_size + k - width)...>(a, b);
    rows[i + width] = shuffle<((k & width) == 0 ? k + width : tile_size + k)...>(a, b);
  }
}

template <int width = 1>
inline void turn(TileRegister (&rows)[tile_size]) {
  turn_blocks<width>(rows, std::make_integer_sequence<std::uint32_t, tile_size>());
  if constexpr (2 * width < tile_size) turn<2 * width>(rows);
}

}  // namespace
}  // namespace tandem::vector::TANDEM_ISA
