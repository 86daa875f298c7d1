// Which operators ONNX has, supported here or not: a node of another name is misspelled, or of another domain.
#pragma once
#include <string_view>

namespace tandem {

bool is_standard_operator(std::string_view name);
// Why an operator that exporters write has no row, and what can be done instead; "": nothing is known.
std::string_view why_unsupported(std::string_view name, std::string_view domain);  // of the default domain

}  // namespace tandem
