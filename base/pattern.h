// Names that a user writes with *, ? and sets of characters, [0-5] or [!ab]. A pattern that is a name itself matches it.
#pragma once
#include <string>
#include <vector>

namespace tandem {

bool matches_any(const std::string& name, const std::vector<std::string>& patterns);

}  // namespace tandem
