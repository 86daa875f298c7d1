#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string_view>
#include <vector>

namespace tandem {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(Crc32c, IsThatOfTheStandard) {
  std::vector<std::byte> rising(32);
  for (std::size_t i = 0; i < rising.size(); ++i) rising[i] = std::byte(i);
  const std::vector<std::byte> zeros(32);
  for (const auto sum : {crc32c, crc32c_by_table}) {  // RFC 3720, B.4, and the usual check value
    EXPECT_EQ(sum(0, zeros), 0x8a9136aaU);
    EXPECT_EQ(sum(0, rising), 0x46dd794eU);
    EXPECT_EQ(sum(0, bytes_of("123456789")), 0xe3069283U);
    EXPECT_EQ(sum(0, {}), 0U);
  }
}

TEST(Crc32c, DoesNotDependOnHowBytesComeAndSeesEveryBit) {
  std::vector<std::byte> bytes(61);
  std::uint32_t seed = 1;
  for (std::byte& b : bytes) b = std::byte((seed = seed * 1664525 + 1013904223) >> 24);
  const std::uint32_t whole = crc32c(0, bytes);
  EXPECT_EQ(crc32c_by_table(0, bytes), whole);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut)
    EXPECT_EQ(crc32c(crc32c(0, std::span(bytes).first(cut)), std::span(bytes).subspan(cut)), whole) << cut;
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
    EXPECT_NE(crc32c(0, bytes), whole) << bit;
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
  }
}

}  // namespace
}  // namespace tandem
