#include "data/thrift.h"

namespace tandem {
namespace {

constexpr int deepest = 32;
enum Kind { stop, yes, no, byte, i16, i32, i64, real, binary, list, set, map, structure };

bool take_list(std::string_view& s, int depth);
bool take_struct(std::string_view& s, int depth);

// A value, off the front.
bool take(std::string_view& s, int kind, Thrift& to, int depth) {
  if (depth > deepest) return false;
  to.kind = kind;
  std::uint64_t length = 0;
  const std::string_view whole = s;
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
    case list: case set: case structure:
      if (!(kind == structure ? take_struct(s, depth + 1) : take_list(s, depth + 1))) return false;
      to.text = whole.substr(0, whole.size() - s.size());
      return true;
    default: return false;  // Parquet has no maps
  }
}

// The kind and the number of a list's values. A boolean is a byte there.
bool take_head(std::string_view& s, int& kind, std::uint64_t& length) {
  if (s.empty()) return false;
  const auto head = static_cast<unsigned char>(s[0]);
  s.remove_prefix(1);
  kind = (head & 15) == yes || (head & 15) == no ? static_cast<int>(byte) : head & 15;
  length = head >> 4;
  if (length == 15 && !read_varint(s, length)) return false;
  return length <= s.size();  // each takes a byte at least
}
bool take_list(std::string_view& s, int depth) {
  int kind = 0;
  std::uint64_t length = 0;
  if (!take_head(s, kind, length)) return false;
  for (Thrift value; length > 0; --length)
    if (!take(s, kind, value, depth)) return false;
  return true;
}

// The head of a struct's next field; false at the end, and where it is cut (then nothing is left).
bool take_field(std::string_view& s, int& id, int& kind) {
  if (s.empty()) return false;
  const auto head = static_cast<unsigned char>(s[0]);
  s.remove_prefix(1);
  kind = head & 15;
  if (head == stop) return false;
  std::int64_t given = id + (head >> 4);
  if (head >> 4 == 0 && !read_zigzag(s, given)) kind = map;  // no kind that is read
  id = static_cast<int>(given & 0x7fff);
  return true;
}
bool take_struct(std::string_view& s, int depth) {
  int id = 0, kind = map;
  for (Thrift value; take_field(s, id, kind);)
    if (!take(s, kind, value, depth)) return false;
  return kind == stop;
}

}  // namespace

Thrift Thrift::operator[](int id) const {
  std::string_view s = kind == structure ? text : "";
  int at = 0, of = 0;
  for (Thrift value; take_field(s, at, of); value = {}) {
    if (!take(s, of, value, 0)) break;
    if (at == id) return value;
  }
  return {.there = false};
}

ThriftList Thrift::list() const {
  ThriftList l;
  if (kind != Kind::list && kind != Kind::set) return l;
  l.bytes_ = text;
  if (!take_head(l.bytes_, l.kind_, l.left_)) l.left_ = 0;
  return l;
}

bool ThriftList::next(Thrift& to) {
  to = {};
  if (left_ == 0) return false;
  --left_;
  return take(bytes_, kind_, to, 0);
}

bool parse_thrift(std::string_view& bytes, Thrift& to) { return take(bytes, structure, to, 0); }

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
