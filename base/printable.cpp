// Text is decoded as UTF-8 character by character; what is no character, or one that a terminal would act on, is written as the
// numbers of its bytes.
#include "base/printable.h"

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

bool is_hidden(std::uint32_t c) {
  struct Range {
    std::uint32_t first, last;
  };
  // Source: DerivedCoreProperties.txt of Unicode 15 for Default_Ignorable_Code_Point; the first row and 0x2028, 0xfff9 are ours.
  constexpr Range hidden[] = {
      {0, 0x1f},        {0x7f, 0x9f},     {0xad, 0xad},     {0x34f, 0x34f},   {0x61c, 0x61c},   {0x115f, 0x1160},   {0x17b4, 0x17b5},
      {0x180b, 0x180f}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f}, {0x3164, 0x3164}, {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},
      {0xffa0, 0xffa0}, {0xfff0, 0xfffb}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
  };
  for (const Range& r : hidden)
    if (c >= r.first && c <= r.last) return true;
  return false;
}

constexpr std::string_view digits = "0123456789abcdef";

void append_bytes(std::string& out, std::string_view bytes) {
  for (const char b : bytes) {
    const auto value = static_cast<unsigned char>(b);
    (out += "\\x") += {digits[value >> 4], digits[value & 15]};
  }
}

void append_code(std::string& out, std::uint32_t unit) {
  (out += "\\u") += {digits[unit >> 12], digits[unit >> 8 & 15], digits[unit >> 4 & 15], digits[unit & 15]};
}

// `text` with what `is_written` picks, by character (bytes 0: no UTF-8), replaced by what `write` appends.
template <class IsWritten, class Write>
std::string rewritten(std::string_view text, IsWritten&& is_written, Write&& write) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character c = decode(text);
    const std::string_view bytes = text.substr(0, c.bytes == 0 ? 1 : c.bytes);
    if (is_written(c, text))
      write(out, bytes, c);
    else
      out += bytes;
    text.remove_prefix(bytes.size());
  }
  return out;
}

// The byte that "\xNN" at the beginning of `text` stands for; -1: it is none.
int written_byte(std::string_view text) {
  if (text.size() < 4 || !text.starts_with("\\x")) return -1;
  const std::size_t high = digits.find(text[2]), low = digits.find(text[3]);
  return high == std::string_view::npos || low == std::string_view::npos ? -1 : static_cast<int>(high << 4 | low);
}

bool is_layout(std::uint32_t c) { return c == '\n' || c == '\t'; }

}  // namespace

std::string printable(std::string_view text, Lines lines) {
  const auto hides = [&](const Character& c, std::string_view) {
    return c.bytes == 0 || (is_hidden(c.number) && !(lines == Lines::kept && is_layout(c.number)));
  };
  return rewritten(text, hides, [](std::string& out, std::string_view bytes, const Character&) { append_bytes(out, bytes); });
}

std::string printable_json(std::string_view json) {
  const auto hides = [](const Character& c, std::string_view) { return is_hidden(c.number) && !is_layout(c.number); };
  return rewritten(json, hides, [](std::string& out, std::string_view, const Character& c) {
    if (c.number < 0x10000) return append_code(out, c.number);
    append_code(out, 0xd800 + ((c.number - 0x10000) >> 10));
    append_code(out, 0xdc00 + (c.number & 0x3ff));
  });
}

std::string as_text(std::string_view bytes) {
  const auto is_written = [](const Character& c, std::string_view rest) { return c.bytes == 0 || written_byte(rest) >= 0; };
  return rewritten(bytes, is_written, [](std::string& out, std::string_view byte, const Character&) { append_bytes(out, byte); });
}

std::string from_text(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const int byte = written_byte(text.substr(at));
    out += byte < 0 ? text[at] : static_cast<char>(byte);
    at += byte < 0 ? 1 : 4;
  }
  return out;
}

std::string csv_cell(std::string_view bytes) {
  const std::string text = printable(as_text(bytes));
  if (text.find_first_of(",\"") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const Character c = decode(bytes);
    if (c.bytes == 0) return false;
    bytes.remove_prefix(c.bytes);
  }
  return true;
}

}  // namespace tandem
