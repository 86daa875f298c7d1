// Attributes that ONNX's operators do not have: what the importer learnt of a node from the file's notes.
#pragma once
#include <string_view>

namespace tandem {

inline constexpr std::string_view padding_row = "padding_row";  // of Gather: no gradient reaches this row of its data

}  // namespace tandem
