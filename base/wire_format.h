// Protocol buffers' wire format: where bytes that the library could not parse are broken. The library itself does not say.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace tandem {

enum class Packed : int { fixed32 = -1, fixed64 = -2, varint = -3 };  // lists of numbers

// A field that holds further structure. `in`, `of`: messages by number, 0 is the whole file's; `of` may be a Packed.
struct WireField {
  int in, number;
  std::string_view name;  // "node[]": there may be several
  int of;
};

// "graph.node[3].attribute[0] (at byte 512) says that it has 4096 bytes, 100 are left"; "" where nothing is found to be broken.
std::string broken_part(std::string_view bytes, std::span<const WireField> fields);

}  // namespace tandem
