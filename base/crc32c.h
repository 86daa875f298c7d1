// CRC-32C (Castagnoli), the checksum of iSCSI and ext4: it finds every damage that lies within 32 bits, and other damage
// but for one case in 2^32. Processors have an instruction for it (SSE 4.2). Source: RFC 3720, appendix B.4.
#pragma once
#include <cstdint>
#include <span>

namespace tandem {

// Of the bytes whose sum is `before`, followed by `bytes`; begin with 0.
std::uint32_t crc32c(std::uint32_t before, std::span<const std::byte> bytes);
// The same without that instruction.
std::uint32_t crc32c_by_table(std::uint32_t before, std::span<const std::byte> bytes);

}  // namespace tandem
