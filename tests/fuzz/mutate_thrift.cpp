#include "tests/fuzz/mutate_thrift.h"

#include <cstdint>
#include <limits>

namespace tandem::fuzz {
namespace {

enum Kind { stop, yes, no, byte, i16, i32, i64, real, binary, list, set, map, structure };

struct Node {
  int kind = stop, id = 0, of = stop;  // `of`: a list's values
  std::int64_t number = 0;
  std::string text;
  std::vector<Node> inner;
};

// What sizes and counts may be that something is made of.
constexpr std::int64_t numbers[] = {0,
                                    1,
                                    2,
                                    3,
                                    7,
                                    8,
                                    9,
                                    31,
                                    32,
                                    33,
                                    63,
                                    64,
                                    100,
                                    101,
                                    127,
                                    128,
                                    255,
                                    256,
                                    1000,
                                    1 << 16,
                                    1 << 20,
                                    (1 << 20) + 1,
                                    std::int64_t{1} << 27,
                                    (std::int64_t{1} << 31) - 1,
                                    std::int64_t{1} << 31,
                                    std::int64_t{1} << 32,
                                    std::int64_t{1} << 40,
                                    std::int64_t{1} << 62,
                                    std::numeric_limits<std::int64_t>::max(),
                                    -1,
                                    -2,
                                    std::numeric_limits<std::int64_t>::min()};

class Parser {
 public:
  Parser(std::string_view bytes, std::vector<Node*>& all) : s(bytes), all_(all) {}
  bool parse(Node& n, int kind, int depth) {
    n.kind = kind;
    if (depth > 64) return false;
    std::uint64_t v = 0;
    switch (kind) {
      case yes: case no: return true;
      case byte: n.number = s.empty() ? 0 : static_cast<signed char>(s[0]); return skip(1);
      case i16: case i32: case i64:
        if (!varint(v)) return false;
        n.number = static_cast<std::int64_t>(v >> 1) ^ -static_cast<std::int64_t>(v & 1);
        return true;
      case real: n.text = s.substr(0, 8); return skip(8);
      case binary:
        if (!varint(v)) return false;
        n.text = s.substr(0, v);
        return skip(v);
      case list: case set: {
        if (s.empty()) return false;
        const auto head = static_cast<unsigned char>(s[0]);
        s.remove_prefix(1);
        n.of = head & 15;
        v = head >> 4;
        if ((v == 15 && !varint(v)) || v > s.size()) return false;
        n.inner.resize(v);
        for (Node& value : n.inner)
          if (!parse(value, n.of == yes || n.of == no ? static_cast<int>(byte) : n.of, depth + 1)) return false;
        return true;
      }
      case structure:
        for (int id = 0; !s.empty();) {
          const auto head = static_cast<unsigned char>(s[0]);
          s.remove_prefix(1);
          if (head == 0) return true;
          if (head >> 4 == 0 && !varint(v)) return false;
          id += head >> 4 ? head >> 4 : static_cast<int>(v >> 1 & 0x7fff) - id;
          n.inner.emplace_back();
          n.inner.back().id = id;
          if (!parse(n.inner.back(), head & 15, depth + 1)) return false;
        }
        return false;
      default: return false;
    }
  }
  void collect(Node& n) {
    all_.push_back(&n);
    for (Node& inner : n.inner) collect(inner);
  }
  std::string_view s;

 private:
  bool skip(std::uint64_t n) {
    if (n > s.size()) return false;
    s.remove_prefix(n);
    return true;
  }
  bool varint(std::uint64_t& v) {
    v = 0;
    for (int shift = 0; shift < 64 && !s.empty(); shift += 7) {
      const auto c = static_cast<unsigned char>(s[0]);
      s.remove_prefix(1);
      v |= std::uint64_t{c & 127u} << shift;
      if (c < 128) return true;
    }
    return false;
  }
  std::vector<Node*>& all_;
};

void put(std::string& to, std::uint64_t v) {
  for (; v > 127; v >>= 7) to += static_cast<char>((v & 127) | 128);
  to += static_cast<char>(v);
}
void put_signed(std::string& to, std::int64_t v) { put(to, static_cast<std::uint64_t>(v) << 1 ^ static_cast<std::uint64_t>(v >> 63)); }

void write(const Node& n, std::string& to) {
  switch (n.kind) {
    case byte: to += static_cast<char>(n.number); break;
    case i16: case i32: case i64: put_signed(to, n.number); break;
    case real: to += n.text; break;
    case binary:
      put(to, n.text.size());
      to += n.text;
      break;
    case list: case set:
      to += static_cast<char>(0xf0 | n.of);
      put(to, n.inner.size());
      for (const Node& value : n.inner) write(value, to);
      break;
    case structure:
      for (const Node& field : n.inner) {
        to += static_cast<char>(field.kind);
        put_signed(to, field.id);
        write(field, to);
      }
      to += '\0';
      break;
    default: break;
  }
}

void change(Node& n, std::span<Node* const> all, Random& random) {
  switch (n.kind) {
    case yes: case no: n.kind = random.one_in(2) ? static_cast<int>(yes) : static_cast<int>(no); break;
    case byte: case i16: case i32: case i64:
      n.number = random.one_in(3) ? random.of(all)->number
                 : random.one_in(3) ? static_cast<std::int64_t>(static_cast<std::uint64_t>(n.number) + random.below(5) - 2)  // wraps
                                    : random.of(numbers);
      break;
    case binary:
      if (random.one_in(2)) n.text = random.of(all)->text;
      else mutate_bytes(n.text, random);
      break;
    case list: case set: case structure: {
      if (n.inner.empty()) break;
      const std::size_t at = random.below(n.inner.size());
      const Node one = n.inner[at];
      if (random.one_in(3))
        n.inner.erase(n.inner.begin() + static_cast<std::ptrdiff_t>(at));
      else if (n.kind != structure && random.one_in(2))
        n.inner.insert(n.inner.end(), 1 + random.below(random.one_in(8) ? 500 : 4), one);
      else
        std::swap(n.inner[at], n.inner[random.below(n.inner.size())]);
      break;
    }
    default: break;
  }
}

}  // namespace

bool mutate_thrift(std::string_view& bytes, std::string& changed, Random& random) {
  Node root;
  std::vector<Node*> all;
  Parser parser(bytes, all);
  if (!parser.parse(root, structure, 0)) return false;
  parser.collect(root);
  bytes = parser.s;
  change(*random.of(all), all, random);
  changed.clear();
  write(root, changed);
  return true;
}

}  // namespace tandem::fuzz
