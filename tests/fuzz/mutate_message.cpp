// Protobuf's wire format as a tree: any length-delimited field whose bytes can be read as fields is taken as a message.
#include <algorithm>
#include <optional>

#include "tests/fuzz/fuzz.h"

namespace tandem::fuzz {
namespace {

enum Wire : std::uint8_t { varint = 0, eight_bytes = 1, text = 2, four_bytes = 5 };
constexpr int most_depth = 24;

struct Field {
  std::uint32_t number = 0;
  Wire wire = varint;
  std::uint64_t value = 0;   // varint, eight_bytes, four_bytes
  std::string bytes;         // text
  std::vector<Field> inner;  // text that is a message
};
using Message = std::vector<Field>;

std::optional<std::uint64_t> take_varint(std::string_view& in) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto byte = static_cast<std::uint8_t>(in[0]);
    in.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  return {};
}

std::optional<Message> parse(std::string_view in, int depth) {
  Message message;
  while (!in.empty()) {
    const auto key = take_varint(in);
    if (!key || *key >> 3 == 0 || *key >> 3 > 1 << 20) return {};
    Field field{.number = static_cast<std::uint32_t>(*key >> 3), .wire = static_cast<Wire>(*key & 7)};
    if (field.wire == varint) {
      const auto value = take_varint(in);
      if (!value) return {};
      field.value = *value;
    } else if (field.wire == eight_bytes || field.wire == four_bytes) {
      const std::size_t size = field.wire == eight_bytes ? 8 : 4;
      if (in.size() < size) return {};
      for (std::size_t i = 0; i < size; ++i) field.value |= std::uint64_t{static_cast<std::uint8_t>(in[i])} << (8 * i);
      in.remove_prefix(size);
    } else if (field.wire == text) {
      const auto size = take_varint(in);
      if (!size || *size > in.size()) return {};
      field.bytes = in.substr(0, *size);
      in.remove_prefix(*size);
      if (depth > 0 && !field.bytes.empty())
        if (auto inner = parse(field.bytes, depth - 1)) field.inner = std::move(*inner);
    } else {
      return {};
    }
    message.push_back(std::move(field));
  }
  return message;
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

std::string bytes_of(const Message& message) {
  std::string out;
  for (const Field& field : message) {
    put_varint(out, std::uint64_t{field.number} << 3 | field.wire);
    if (field.wire == varint) {
      put_varint(out, field.value);
    } else if (field.wire == text) {
      const std::string inner = field.inner.empty() ? field.bytes : bytes_of(field.inner);
      put_varint(out, inner.size());
      out += inner;
    } else {
      for (int i = 0; i < (field.wire == eight_bytes ? 8 : 4); ++i) out += static_cast<char>(field.value >> (8 * i));
    }
  }
  return out;
}

// A field where it stands. Those of one kind have the same numbers on the way to them.
struct Place {
  Message* in;
  std::size_t at;
  std::uint64_t kind;
  Field& field() const { return (*in)[at]; }
};

void list(Message& message, std::uint64_t kind, std::vector<Place>& places) {
  for (std::size_t i = 0; i < message.size(); ++i) {
    places.push_back({&message, i, kind * 1021 + message[i].number});
    list(message[i].inner, places.back().kind, places);
  }
}

std::uint64_t limit(Random& random) {
  constexpr std::uint64_t values[] = {0, 1, 2, 3, 4, 7, 8, 16, 255, 256, 65535, 1U << 20, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1ULL << 40,
                                      1ULL << 62, ~0ULL >> 1, 1ULL << 63, ~0ULL, ~0ULL - 1, 0x7F800000, 0x7FF0000000000000};
  return random.of(values);
}

void set_value(Field& field, std::span<const std::string> words, Random& random) {
  if (field.wire != text) {
    field.value = random.one_in(2) ? limit(random) : field.value + random.below(5) - 2;
    return;
  }
  field.inner.clear();
  switch (random.below(4)) {
    case 0: field.bytes.clear(); break;
    case 1: put_varint(field.bytes = "", limit(random)); break;  // a packed list of one
    case 2:
      if (!words.empty()) field.bytes = random.of(words);
      break;
    default: mutate_bytes(field.bytes, random);
  }
}

void mutate_once(Message& message, Message& other, std::span<const std::string> words, Random& random) {
  std::vector<Place> places, others;
  list(message, 0, places);
  if (places.empty()) return;
  const Place place = random.of(places);
  Field& field = place.field();
  const auto alike = [&](std::vector<Place>& from) -> const Field* {
    std::erase_if(from, [&](const Place& p) { return p.kind != place.kind; });
    return from.empty() ? nullptr : &random.of(from).field();
  };
  const auto at = place.in->begin() + static_cast<std::ptrdiff_t>(place.at);
  switch (random.below(8)) {
    case 0: place.in->erase(at); break;
    case 1: place.in->insert(at, Field(field)); break;
    case 2: std::swap(field, random.of(*place.in)); break;
    case 3:
      if (const Field* from = alike(places)) field = Field(*from);
      break;
    case 4:
    case 5: {
      list(other, 0, others);
      const Field* from = alike(others);
      if (!from) break;
      if (random.one_in(2))
        place.in->insert(at, *from);
      else
        field = *from;
      break;
    }
    default: set_value(field, words, random);
  }
}

}  // namespace

void mutate_message(std::string& message, const std::string& other, std::span<const std::string> words, Random& random) {
  auto tree = parse(message, most_depth);
  if (!tree || random.one_in(16)) return mutate_bytes(message, random);
  auto second = parse(other, most_depth);
  if (!second) second = Message();
  for (std::size_t n = 1 + random.below(3); n > 0; --n) mutate_once(*tree, *second, words, random);
  message = bytes_of(*tree);
}

}  // namespace tandem::fuzz
