// Thrift's compact protocol, as Parquet's footers and page headers are written: any struct, read as a tree without its schema.
// Source: thrift-compact-protocol.md of Apache Thrift.
#pragma once
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

struct Thrift {
  std::int64_t number = 0;        // of an integer, or a boolean
  std::string_view text{};        // of a string: a part of the bytes that were parsed
  std::vector<Thrift> list{};
  std::vector<std::pair<int, Thrift>> fields{};  // of a struct, by id

  const Thrift& operator[](int id) const;  // an empty one where it is not there
  bool has(int id) const;
};

// The struct that `bytes` begin with; its length is taken off their front. False on what is cut or no struct, beyond 32 levels, or
// longer than its bytes could hold.
bool parse_thrift(std::string_view& bytes, Thrift& to);

// LEB128, also with the sign in its lowest bit; false where it is cut.
bool read_varint(std::string_view& bytes, std::uint64_t& to);
bool read_zigzag(std::string_view& bytes, std::int64_t& to);

}  // namespace tandem
