// The one hash: FNV-1a with 64 bits. It names things by what they hold (plans, templates, data, compiled kernels, random
// streams) and tells whether two byte strings are the same where nobody means harm; not for what must withstand an attacker.
// Source: Fowler, Noll, Vo; draft-eastlake-fnv. Damage of bytes on their way is found by crc32c.h, and in zip archives by the
// CRC-32 that their format has (zlib's).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tandem {

class Hash {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) value_ = (value_ ^ static_cast<std::uint64_t>(b)) * 0x100000001b3u;
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  std::uint64_t value() const { return value_; }
  std::string text() const {  // 16 hex digits
    std::string s(16, '0');
    for (std::size_t i = 0; i < 16; ++i) s[i] = "0123456789abcdef"[value_ >> (60 - 4 * i) & 15];
    return s;
  }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

inline std::uint64_t hash_of(std::string_view text) {
  Hash hash;
  hash.add(text);
  return hash.value();
}

}  // namespace tandem
