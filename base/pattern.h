// Names that a user writes with * and ?.
#pragma once
#include <string>
#include <vector>

namespace tandem {

bool matches_any(const std::string& name, const std::vector<std::string>& patterns);

}  // namespace tandem
