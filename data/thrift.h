// Thrift's compact protocol, as Parquet's footers and page headers are written: any struct, read without its schema. A value is a part of
// the bytes that were parsed and is walked through where it is wanted: a tree of any size takes no memory.
// Source: thrift-compact-protocol.md of Apache Thrift.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tandem {

class ThriftList;

struct Thrift {
  std::int64_t number = 0;  // of an integer, or a boolean
  std::string_view text{};  // of a string; of a list or a struct its own bytes
  int kind = 0;             // the protocol's number
  bool there = true;

  Thrift operator[](int id) const;  // a struct's field: an empty one where it is not there
  bool has(int id) const { return (*this)[id].there; }
  ThriftList list() const;
};

class ThriftList {
 public:
  std::uint64_t size() const { return left_; }  // of what is left
  bool next(Thrift& to);                        // takes the first off

 private:
  friend struct Thrift;
  std::string_view bytes_{};
  std::uint64_t left_ = 0;
  int kind_ = 0;
};

// The struct that `bytes` begin with; its length is taken off their front. False on what is cut or no struct, beyond 32 levels, or
// longer than its bytes could hold.
bool parse_thrift(std::string_view& bytes, Thrift& to);

// LEB128, also with the sign in its lowest bit; false where it is cut.
bool read_varint(std::string_view& bytes, std::uint64_t& to);
bool read_zigzag(std::string_view& bytes, std::int64_t& to);

}  // namespace tandem
