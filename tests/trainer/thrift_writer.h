// Structs of Thrift's compact protocol, and Parquet files of them, written as a test wants them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

inline std::string varint(std::uint64_t v) {
  std::string s;
  for (; v > 127; v >>= 7) s += static_cast<char>((v & 127) | 128);
  return s + static_cast<char>(v);
}
inline std::string zigzag(std::int64_t v) { return varint(static_cast<std::uint64_t>(v) << 1 ^ static_cast<std::uint64_t>(v >> 63)); }

class ThriftWriter {
 public:
  ThriftWriter& number(int id, std::int64_t v) { return put(id, 6, zigzag(v)); }
  ThriftWriter& text(int id, const std::string& v) { return put(id, 8, varint(v.size()) + v); }
  ThriftWriter& structure(int id, const ThriftWriter& v) { return put(id, 12, v.bytes()); }
  ThriftWriter& structures(int id, const std::vector<std::string>& v) {
    std::string list = '\xfc' + varint(v.size());
    for (const std::string& s : v) list += s;
    return put(id, 9, list);
  }
  ThriftWriter& numbers(int id, const std::vector<std::int64_t>& v) {
    std::string list = '\xf5' + varint(v.size());
    for (const std::int64_t n : v) list += zigzag(n);
    return put(id, 9, list);
  }
  std::string bytes() const { return bytes_ + '\0'; }

 private:
  ThriftWriter& put(int id, int kind, const std::string& value) {
    bytes_ += static_cast<char>((id - last_) << 4 | kind);
    last_ = id;
    bytes_ += value;
    return *this;
  }
  std::string bytes_;
  int last_ = 0;
};

inline std::string parquet_of(const std::string& chunks, const std::string& footer) {
  std::string length;
  for (int i = 0; i < 4; ++i) length += static_cast<char>(footer.size() >> (8 * i));
  return "PAR1" + chunks + footer + length + "PAR1";
}
inline std::string parquet_root(std::int64_t children) { return ThriftWriter().text(4, "root").number(5, children).bytes(); }
inline std::string parquet_group(const std::string& name, std::int64_t children) {
  return ThriftWriter().number(3, 0).text(4, name).number(5, children).bytes();
}
inline std::string parquet_int32(const std::string& name) { return ThriftWriter().number(1, 1).number(3, 0).text(4, name).bytes(); }
// A column chunk: so many values in so many bytes of the file.
inline std::string parquet_chunk(std::uint64_t offset, std::uint64_t bytes, std::int64_t values) {
  return ThriftWriter()
      .number(2, static_cast<std::int64_t>(offset))
      .structure(3, ThriftWriter()
                        .number(1, 1)
                        .number(4, 0)
                        .number(5, values)
                        .number(6, static_cast<std::int64_t>(bytes))
                        .number(7, static_cast<std::int64_t>(bytes))
                        .number(9, static_cast<std::int64_t>(offset)))
      .bytes();
}
inline std::string parquet_row_group(const std::vector<std::string>& chunks, std::int64_t rows) {
  return ThriftWriter().structures(1, chunks).number(2, 0).number(3, rows).bytes();
}
inline std::string parquet_footer(const std::vector<std::string>& schema, std::int64_t rows, const std::vector<std::string>& row_groups) {
  return ThriftWriter().number(1, 1).structures(2, schema).number(3, rows).structures(4, row_groups).bytes();
}
// A page of so many numbers, in the encoding of that number, as they are.
inline std::string parquet_page(const std::string& body, std::int64_t values, std::int64_t encoding) {
  return ThriftWriter()
             .number(1, 0)
             .number(2, static_cast<std::int64_t>(body.size()))
             .number(3, static_cast<std::int64_t>(body.size()))
             .structure(5, ThriftWriter().number(1, values).number(2, encoding).number(3, 3).number(4, 3))
             .bytes() +
         body;
}

}  // namespace tandem
