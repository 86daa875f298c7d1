// Matches a name and a pattern by going back to the last * where they part.
#include "base/pattern.h"

#include <string_view>

namespace tandem {

bool matches_any(const std::string& name, const std::vector<std::string>& patterns) {
  // Iterative glob with one backtrack point.
  const auto matches = [](std::string_view s, std::string_view p) {
    std::size_t i = 0, j = 0, star = std::string_view::npos, mark = 0;
    while (i < s.size()) {
      if (j < p.size() && (p[j] == '?' || p[j] == s[i])) {
        ++i;
        ++j;
      } else if (j < p.size() && p[j] == '*') {
        star = j++;
        mark = i;
      } else if (star != std::string_view::npos) {
        j = star + 1;
        i = ++mark;
      } else {
        return false;
      }
    }
    while (j < p.size() && p[j] == '*') ++j;
    return j == p.size();
  };
  for (const std::string& p : patterns)
    if (matches(name, p)) return true;
  return false;
}

}  // namespace tandem
