// Matches a name and a pattern by going back to the last * where they part.
#include "base/pattern.h"

#include <algorithm>
#include <string_view>

namespace tandem {
namespace {

// Whether a pattern goes on with a set of characters at `at`, such as [0-5], [abc] or [!x]: `end` is behind it, `holds` whether `c` is one
// of them. A [ that nothing closes stands for itself.
bool is_set(std::string_view pattern, std::size_t at, char c, std::size_t& end, bool& holds) {
  if (pattern[at] != '[') return false;
  std::size_t i = at + 1;
  const bool others = i < pattern.size() && pattern[i] == '!';
  i += others;
  const std::size_t close = pattern.find(']', i + 1);
  if (close == std::string_view::npos) return false;
  bool any = false;
  while (i < close) {
    const bool range = i + 2 < close && pattern[i + 1] == '-';
    const char last = range ? pattern[i + 2] : pattern[i];
    any = any || (pattern[i] <= c && c <= last);
    i += range ? 3 : 1;
  }
  end = close + 1;
  holds = any != others;
  return true;
}

bool matches(std::string_view s, std::string_view p) {
  // Iterative glob with one backtrack point.
  std::size_t i = 0, j = 0, star = std::string_view::npos, mark = 0;
  while (i < s.size()) {
    std::size_t end = j + 1;
    bool fits = false;
    if (j < p.size() && !is_set(p, j, s[i], end, fits)) fits = p[j] != '*' && (p[j] == '?' || p[j] == s[i]);
    if (fits) {
      ++i;
      j = end;
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
}

}  // namespace

bool matches_any(const std::string& name, const std::vector<std::string>& patterns) {
  return std::ranges::any_of(patterns, [&](const std::string& p) { return p == name || matches(name, p); });
}

}  // namespace tandem
