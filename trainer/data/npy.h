// numpy's array files. Versions 1 to 3 of the header, little-endian numbers, both element orders.
// Source: numpy.lib.format's documentation.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "graph/tensor.h"

namespace tandem {

// Float16 becomes float32. Fails (data), naming `what`, on anything that is not a whole array.
Tensor parse_npy(std::span<const std::byte> bytes, std::string_view what);
std::string npy_of(const Tensor& tensor);

}  // namespace tandem
