// Source: protobuf.dev, "Encoding".
#include "base/wire_format.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "base/error.h"

namespace tandem {
namespace {

constexpr int deepest = 400;  // messages; the parsers' own limits are lower

class Walker {
 public:
  Walker(std::string_view bytes, std::span<const WireField> fields) : bytes_(bytes), fields_(fields) {}

  // The fault of the message in [begin, end), "" where it is whole. The file may end before `end`.
  std::string message(int kind, const std::string& path, std::size_t begin, std::size_t end, int depth) const {
    if (depth > deepest) return concat(place(path, begin), " nests deeper than ", deepest, " messages");
    std::map<std::uint64_t, int> counts;
    const std::size_t stop = std::min(end, bytes_.size());
    for (std::size_t at = begin; at < stop;) {
      const std::size_t start = at;
      std::uint64_t tag = 0, size = 0;
      if (!varint(at, stop, tag)) return concat(place(path, start), " ends within a field's tag");
      const std::uint64_t number = tag >> 3;
      const auto row = std::find_if(fields_.begin(), fields_.end(),
                                    [&](const WireField& f) { return f.in == kind && static_cast<std::uint64_t>(f.number) == number; });
      const std::string name = joined(path, row == fields_.end() ? concat("field ", number) : named(*row, counts[number]++));
      if (number == 0 || number >= 1 << 29) return concat(place(path, start), " has a field of number ", number, ", which there cannot be");
      switch (tag & 7) {
        case 0:
          if (!varint(at, stop, size)) return concat(place(name, start), " is a number that does not end");
          continue;
        case 1: size = 8; break;
        case 5: size = 4; break;
        case 2:
          if (!varint(at, stop, size)) return concat(place(name, start), " has a size that does not end");
          break;
        default: return concat(place(name, start), " has wire type ", tag & 7, ", which ONNX and plans do not use");
      }
      const bool cut = size > stop - at;
      if (row != fields_.end() && (tag & 7) == 2) {
        const std::string inner = row->of >= 0 ? message(row->of, name, at, cut ? stop : at + static_cast<std::size_t>(size), depth + 1)
                                  : cut        ? ""
                                               : numbers(static_cast<Packed>(row->of), name, start, at, static_cast<std::size_t>(size));
        if (!inner.empty()) return inner;
      }
      if (cut)
        return concat(place(name, start), " says that it has ", size, " bytes, ", stop - at, stop - at == 1 ? " is left" : " are left");
      at += static_cast<std::size_t>(size);
    }
    return "";
  }

 private:
  static std::string joined(const std::string& path, const std::string& name) { return path.empty() ? name : concat(path, '.', name); }
  static std::string named(const WireField& field, int index) {
    const bool several = field.name.ends_with("[]");
    return several ? concat(field.name.substr(0, field.name.size() - 1), index, ']') : std::string(field.name);
  }
  static std::string place(const std::string& path, std::size_t at) {
    return concat(path.empty() ? "the file" : path, " (at byte ", at, ")");
  }

  bool varint(std::size_t& at, std::size_t stop, std::uint64_t& value) const {
    value = 0;
    for (int shift = 0; shift < 70 && at < stop; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_[at++]);
      if (shift < 64) value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

  std::string numbers(Packed kind, const std::string& name, std::size_t start, std::size_t at, std::size_t size) const {
    const std::size_t width = kind == Packed::fixed32 ? 4 : kind == Packed::fixed64 ? 8 : 1;
    if (size % width != 0) return concat(place(name, start), " has ", size, " bytes of numbers of ", width, " bytes each");
    std::uint64_t value = 0;
    const std::size_t stop = at + size;
    while (kind == Packed::varint && at < stop)
      if (!varint(at, stop, value)) return concat(place(name, start), " ends within a number");
    return "";
  }

  std::string_view bytes_;
  std::span<const WireField> fields_;
};

}  // namespace

std::string broken_part(std::string_view bytes, std::span<const WireField> fields) {
  return Walker(bytes, fields).message(0, "", 0, bytes.size(), 0);
}

}  // namespace tandem
