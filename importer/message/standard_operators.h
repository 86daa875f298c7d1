// Which operators ONNX has, supported here or not: a node of another name is misspelled, or of another domain.
#pragma once
#include <string_view>

namespace tandem {

bool is_standard_operator(std::string_view name);  // of the default domain

}  // namespace tandem
