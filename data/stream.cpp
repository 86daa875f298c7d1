#include "data/stream.h"

#include "base/hash.h"

namespace tandem {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return c;
}

std::uint64_t stream_of(std::string_view name) {
  return hash_of(name);
}

std::uint32_t Random::next() {
  if (used_ == 4) {
    const auto low = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
    const auto high = [](std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); };
    words_ = philox({low(block_), high(block_), low(stream_), high(stream_)}, {low(seed_), high(seed_)});
    ++block_;
    used_ = 0;
  }
  return words_[static_cast<std::size_t>(used_++)];
}

double Random::normal() {
  std::int64_t sum = 0;
  for (int i = 0; i < 6; ++i) {
    const std::uint32_t two = next();
    sum += (two & 0xFFFF) + (two >> 16);
  }
  return (static_cast<double>(sum) - 12 * 32767.5) / 65536;
}

std::int64_t Random::below(std::int64_t n) {
  const std::uint64_t high = next();
  const std::uint64_t word = high << 32 | next();
  return static_cast<std::int64_t>((static_cast<unsigned __int128>(word) * static_cast<std::uint64_t>(n)) >> 64);
}

}  // namespace tandem
