#include "data/lz4.h"

#include <cstring>

namespace tandem {

// Sequences of a token (lengths of literals and of a match, 4 bits each; 15: bytes follow that add to it), the literals, and where
// the match lies: so far back in what was written. The last sequence has literals alone.
bool unpack_lz4(std::string_view s, std::string& to) {
  constexpr std::size_t more = 15, least_match = 4;
  std::size_t at = 0;
  const auto length = [&](std::size_t n, bool& good) {
    if (n != more) return n;
    for (unsigned char byte = 255; byte == 255; n += byte) {
      good = good && !s.empty() && n <= to.size();
      if (!good) return n;
      byte = static_cast<unsigned char>(s[0]);
      s.remove_prefix(1);
    }
    return n;
  };
  while (!s.empty()) {
    const auto token = static_cast<unsigned char>(s[0]);
    s.remove_prefix(1);
    bool good = true;
    const std::size_t literals = length(token >> 4, good);
    if (!good || literals > s.size() || literals > to.size() - at) return false;
    std::memcpy(to.data() + at, s.data(), literals);
    at += literals;
    s.remove_prefix(literals);
    if (s.empty()) break;
    if (s.size() < 2) return false;
    const std::size_t back =
        static_cast<std::size_t>(static_cast<unsigned char>(s[0])) | static_cast<std::size_t>(static_cast<unsigned char>(s[1])) << 8;
    s.remove_prefix(2);
    const std::size_t match = length(token & 15, good) + least_match;
    if (!good || back == 0 || back > at || match > to.size() - at) return false;
    for (std::size_t i = 0; i < match; ++i, ++at) to[at] = to[at - back];  // it may reach into itself
  }
  return at == to.size();
}

}  // namespace tandem
