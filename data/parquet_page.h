// The bytes of a Parquet file's page: uncompressed, snappy, gzip, zstd and LZ4.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "data/read_budget.h"

namespace tandem {

// `body` as it was before the codec (of parquet.thrift), `size` bytes; what is unpacked is kept in `pages` and held in `budget`. Fails
// (data), beginning with `where`, on what is damaged, on codecs that are not known or not built in, and as the budget does.
std::string_view unpack_page(std::string_view body, std::uint64_t size, int codec, std::deque<std::string>& pages, ReadBudget& budget,
                             const std::string& where);

}  // namespace tandem
