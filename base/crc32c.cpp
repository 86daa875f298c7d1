// The processor's instruction where there is one, else a table of 256 entries; both give the same sums.
#include "base/crc32c.h"

#include <array>
#include <cstddef>
#include <cstring>

namespace tandem {
namespace {

constexpr auto table = [] {
  constexpr std::uint32_t polynomial = 0x82f63b78;  // reflected
  std::array<std::uint32_t, 256> t{};
  for (std::uint32_t i = 0; i < t.size(); ++i) {
    t[i] = i;
    for (int bit = 0; bit < 8; ++bit) t[i] = t[i] >> 1 ^ (t[i] & 1 ? polynomial : 0);
  }
  return t;
}();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::uint32_t before, const std::byte* at, std::size_t bytes) {
  std::uint64_t crc = ~before;
  for (; bytes >= 8; at += 8, bytes -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    crc = __builtin_ia32_crc32di(crc, word);
  }
  auto rest = static_cast<std::uint32_t>(crc);
  for (; bytes > 0; ++at, --bytes) rest = __builtin_ia32_crc32qi(rest, static_cast<unsigned char>(*at));
  return ~rest;
}
#endif

}  // namespace

std::uint32_t crc32c_by_table(std::uint32_t before, std::span<const std::byte> bytes) {
  std::uint32_t crc = ~before;
  for (const std::byte b : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<std::uint32_t>(b)) & 0xff];
  return ~crc;
}

std::uint32_t crc32c(std::uint32_t before, std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  static const bool instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (instruction) return by_instruction(before, bytes.data(), bytes.size());
#endif
  return crc32c_by_table(before, bytes);
}

}  // namespace tandem
