// Shows control characters, and what is no UTF-8, as escapes.
#include "graph/printable.h"

#include <cstdint>

namespace tandem {
namespace {

// The bytes that the character at the beginning of `text` takes, and its number; none where it is no UTF-8.
struct Character {
  std::size_t bytes = 0;
  std::uint32_t number = 0;
};
Character decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {1, first};
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return {};
  std::uint32_t number = first & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    number = number << 6 | (byte(i) & 0x3f);
  }
  constexpr std::uint32_t least[] = {0x80, 0x800, 0x10000};  // that takes so many bytes
  const bool surrogate = number >= 0xd800 && number < 0xe000;
  return number < least[bytes - 2] || number > 0x10ffff || surrogate ? Character{} : Character{bytes, number};
}

bool shown(std::uint32_t c) {
  struct Range {
    std::uint32_t first, last;
  };
  constexpr Range hidden[] = {
      {0, 0x1f}, {0x7f, 0x9f},                              // control characters
      {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},  // of no width, ends of lines, directions
      {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f},
  };
  for (const Range& r : hidden)
    if (c >= r.first && c <= r.last) return false;
  return true;
}

}  // namespace

std::string printable(std::string_view text, Lines lines) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  while (!text.empty()) {
    const Character c = decode(text);
    const std::size_t bytes = c.bytes == 0 ? 1 : c.bytes;
    const bool layout = lines == Lines::kept && (c.number == '\n' || c.number == '\t') && c.bytes == 1;
    if (layout || (c.bytes > 0 && shown(c.number)))
      out += text.substr(0, bytes);
    else
      for (const char b : text.substr(0, bytes)) {
        const auto value = static_cast<unsigned char>(b);
        (out += "\\x") += {digits[value >> 4], digits[value & 15]};
      }
    text.remove_prefix(bytes);
  }
  return out;
}

}  // namespace tandem
