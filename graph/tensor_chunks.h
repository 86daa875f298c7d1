// A tensor's bytes in pieces, so that values of a source need not be in memory all at once.
#pragma once
#include <algorithm>

#include "graph/tensor.h"

namespace tandem {

inline constexpr std::int64_t tensor_chunk = std::int64_t{1} << 20;

// Calls visit(bytes, offset) with one piece behind the other; what is in memory is one piece.
template <class Visit>
void each_chunk(const Tensor& tensor, const Visit& visit) {
  if (tensor.in_memory()) return visit(tensor.bytes(), std::int64_t{0});
  std::vector<std::byte> chunk(static_cast<std::size_t>(std::min(tensor.byte_size(), tensor_chunk)));
  for (std::int64_t at = 0; at < tensor.byte_size(); at += std::ssize(chunk)) {
    const std::span<std::byte> piece(chunk.data(),
                                     static_cast<std::size_t>(std::min<std::int64_t>(std::ssize(chunk), tensor.byte_size() - at)));
    tensor.read(piece, at);
    visit(std::span<const std::byte>(piece), at);
  }
}

}  // namespace tandem
