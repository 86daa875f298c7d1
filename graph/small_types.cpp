// Elements of small types as numbers on the host.
#include "graph/small_types.h"

#include <array>
#include <bit>
#include <cmath>

#include "graph/attributes.h"
#include "graph/half.h"

namespace tandem {
namespace {

// To float32 so that a second rounding to fewer bits gives what a single one had: what is not exact ends in an odd bit.
float to_odd(double v) {
  const auto f = static_cast<float>(v);
  if (static_cast<double>(f) == v || !std::isfinite(v)) return f;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(f);
  if (std::abs(static_cast<double>(f)) > std::abs(v)) --bits;
  return std::bit_cast<float>(bits | 1U);
}

}  // namespace

SmallRounding rounding_of(const Attributes& attributes) {
  const std::string mode = attributes.text("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest") fail("round_mode is '", mode, "', expected up, down or nearest");
  return {attributes.integer("saturate", 1) != 0, mode == "up" ? RoundMode::up : mode == "down" ? RoundMode::down : RoundMode::nearest};
}

double number_of(std::uint8_t element, DType t) {
  if (t == DType::uint4 || t == DType::uint2) return element;
  if (is_small_integer(t)) return static_cast<std::int8_t>(element);
  return std::bit_cast<float>(float_bits_of(element, t));
}

std::span<const float, 256> numbers_of(DType t) {
  static const auto tables = [] {
    std::array<std::array<float, 256>, 12> all;
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t code = 0; code < 256; ++code)
        all[i][code] = static_cast<float>(
            number_of(static_cast<std::uint8_t>(code), static_cast<DType>(static_cast<std::size_t>(DType::float8e4m3fn) + i)));
    return all;
  }();
  return tables.at(static_cast<std::size_t>(t) - static_cast<std::size_t>(DType::float8e4m3fn));
}

std::uint8_t element_of(double v, DType t, SmallRounding rounding) {
  if (is_small_integer(t)) return low_bits(number_as<std::int64_t>(v), t);
  return small_of(std::bit_cast<std::uint32_t>(to_odd(v)), t, rounding);
}

}  // namespace tandem
