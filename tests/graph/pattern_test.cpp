#include "base/pattern.h"

#include <gtest/gtest.h>

#include <random>

namespace tandem {
namespace {

struct Row {
  const char *pattern, *name;
  bool matches;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.pattern << " and " << row.name; }
class Patterns : public testing::TestWithParam<Row> {};
TEST_P(Patterns, Match) { EXPECT_EQ(matches_any(GetParam().name, {GetParam().pattern}), GetParam().matches); }
INSTANTIATE_TEST_SUITE_P(Rows, Patterns,
                         testing::Values(Row{"fc1", "fc1", true}, Row{"fc1", "fc12", false}, Row{"fc*", "fc", true}, Row{"*", "", true}, Row{"*a*b", "xaybzb", true},
                                         Row{"?", "", false}, Row{"a?c", "abc", true}, Row{"layer.[0-5].*", "layer.3.weight", true}, Row{"layer.[0-5].*", "layer.6.weight", false},
                                         Row{"layer.[0-5].*", "layer.10.weight", false}, Row{"[abc]1", "b1", true}, Row{"[!abc]1", "b1", false}, Row{"[!abc]1", "d1", true},
                                         Row{"*[0-9]", "fc12", true}, Row{"*[0-9]x", "12y3x", true}, Row{"[0-", "[0-", true}, Row{"w[0]", "w[0]", true}, Row{"w[0]", "w0", true},
                                         Row{"w[0]*", "w[0]b", false}, Row{"[a-c-]", "-", true}, Row{"[]]", "]", true}));

// By trying all ways to share a name among a pattern's pieces.
bool slowly(const std::string& s, const std::string& p) {
  if (p.empty()) return s.empty();
  if (p[0] == '*') return slowly(s, p.substr(1)) || (!s.empty() && slowly(s.substr(1), p));
  if (s.empty()) return false;
  if (p.starts_with("[a-b]")) return (s[0] == 'a' || s[0] == 'b') && slowly(s.substr(1), p.substr(5));
  return (p[0] == '?' || p[0] == s[0]) && slowly(s.substr(1), p.substr(1));
}
TEST(Patterns, AtRandomMatchAsAllWaysDo) {
  std::mt19937 random(1);
  const char* const pieces[] = {"a", "b", "c", "*", "?", "[a-b]"};
  const auto drawn = [&](int kinds, std::size_t most) {
    std::string text;
    for (std::size_t n = random() % most; n > 0; --n) text += pieces[random() % static_cast<unsigned>(kinds)];
    return text;
  };
  for (int i = 0; i < 20000; ++i) {
    const std::string name = drawn(3, 8), pattern = drawn(6, 6);
    EXPECT_EQ(matches_any(name, {pattern}), slowly(name, pattern)) << pattern << " and " << name;
  }
}

}  // namespace
}  // namespace tandem
