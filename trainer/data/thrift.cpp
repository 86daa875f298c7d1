#include "trainer/data/thrift.h"

namespace tandem {
namespace {

constexpr int deepest = 32;
enum Kind { stop, yes, no, byte, i16, i32, i64, real, binary, list, set, map, structure };

bool parse_struct(std::string_view& s, Thrift& to, int depth);

bool parse_value(std::string_view& s, int kind, Thrift& to, int depth) {
  if (depth > deepest) return false;
  std::uint64_t length = 0;
  switch (kind) {
    case yes: to.number = 1; return true;
    case no: return true;
    case byte:
      if (s.empty()) return false;
      to.number = static_cast<signed char>(s[0]);
      s.remove_prefix(1);
      return true;
    case i16: case i32: case i64: return read_zigzag(s, to.number);
    case real:
      if (s.size() < 8) return false;
      s.remove_prefix(8);
      return true;
    case binary:
      if (!read_varint(s, length) || length > s.size()) return false;
      to.text = s.substr(0, length);
      s.remove_prefix(length);
      return true;
    case list: case set: {
      if (s.empty()) return false;
      const auto head = static_cast<unsigned char>(s[0]);
      s.remove_prefix(1);
      length = head >> 4;
      if (length == 15 && !read_varint(s, length)) return false;
      if (length > s.size()) return false;  // each takes a byte at least
      const int of = head & 15;
      for (std::uint64_t i = 0; i < length; ++i) {
        to.list.emplace_back();
        if (of == yes || of == no) {  // a byte each, in a list
          if (!parse_value(s, byte, to.list.back(), depth + 1)) return false;
        } else if (!parse_value(s, of, to.list.back(), depth + 1)) {
          return false;
        }
      }
      return true;
    }
    case structure: return parse_struct(s, to, depth + 1);
    default: return false;  // Parquet has no maps
  }
}

bool parse_struct(std::string_view& s, Thrift& to, int depth) {
  if (depth > deepest) return false;
  for (int id = 0;;) {
    if (s.empty()) return false;
    const auto head = static_cast<unsigned char>(s[0]);
    s.remove_prefix(1);
    if (head == stop) return true;
    std::int64_t given = id + (head >> 4);
    if (head >> 4 == 0 && !read_zigzag(s, given)) return false;
    id = static_cast<int>(given & 0x7fff);
    to.fields.emplace_back(id, Thrift{});
    if (!parse_value(s, head & 15, to.fields.back().second, depth)) return false;
  }
}

}  // namespace

const Thrift& Thrift::operator[](int id) const {
  static const Thrift none;
  for (const auto& [key, value] : fields)
    if (key == id) return value;
  return none;
}
bool Thrift::has(int id) const {
  for (const auto& [key, value] : fields)
    if (key == id) return true;
  return false;
}

bool parse_thrift(std::string_view& bytes, Thrift& to) { return parse_struct(bytes, to, 0); }

bool read_varint(std::string_view& s, std::uint64_t& to) {
  to = 0;
  for (int shift = 0; shift < 64 && !s.empty(); shift += 7) {
    const auto c = static_cast<unsigned char>(s[0]);
    s.remove_prefix(1);
    to |= std::uint64_t{c & 127u} << shift;
    if (c < 128) return true;
  }
  return false;
}
bool read_zigzag(std::string_view& s, std::int64_t& to) {
  std::uint64_t v = 0;
  if (!read_varint(s, v)) return false;
  to = static_cast<std::int64_t>(v >> 1) ^ -static_cast<std::int64_t>(v & 1);
  return true;
}

}  // namespace tandem
