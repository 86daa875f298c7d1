// A column of one row group of a Parquet file, decoded: pages of version 1 and 2; PLAIN, dictionaries, RLE, the three DELTA
// encodings and BYTE_STREAM_SPLIT; uncompressed, snappy, gzip, zstd and LZ4. Source: Apache Parquet's Encodings.md and parquet.thrift.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/read_budget.h"

namespace tandem {

enum class ParquetType { boolean, int32, int64, int96, float32, float64, bytes, fixed };

struct ParquetLeaf {
  ParquetType type = ParquetType::boolean;
  std::int64_t length = 0;      // of fixed
  bool is_unsigned = false, half = false;
  std::optional<std::int64_t> scale;  // of decimals: whole numbers, by 10 to the power of minus this
  int definition = 0, repetition = 0;  // highest levels
};

// One of the three holds the values that are there, by the leaf's type.
struct ParquetValues {
  std::vector<std::int64_t> whole;
  std::vector<double> real;
  std::vector<std::string_view> text;  // within `pages`
  std::vector<std::uint8_t> definition, repetition;  // a level for each value and each null; empty where the highest is 0
  std::deque<std::string> pages;  // and the column's own bytes
};

// Decodes `chunk`, of so many values and nulls. What it takes is held in `budget`. Fails (data), beginning with `where`, on what is damaged
// or contradicts itself, and as the budget does.
ParquetValues read_column(const ParquetLeaf& leaf, std::string chunk, int codec, std::uint64_t values, ReadBudget& budget,
                          const std::string& where);

}  // namespace tandem
