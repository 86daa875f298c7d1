// LZ4's block format. Source: lz4_Block_format.md.
#pragma once
#include <string>
#include <string_view>

namespace tandem {

// Whether `block` unpacks to exactly to.size() bytes, into `to`.
bool unpack_lz4(std::string_view block, std::string& to);

}  // namespace tandem
