#include "graph/printable.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(Printable, ShowsWhatATerminalWouldObey) {
  const struct {
    const char* name;
    std::string_view text, want, want_of_lines;
  } rows[] = {
      {"plain", "conv1.weight", "conv1.weight", "conv1.weight"},
      {"letters of other alphabets", "größe/重み/😀", "größe/重み/😀", "größe/重み/😀"},
      {"colour", "\x1b[31mred", "\\x1b[31mred", "\\x1b[31mred"},
      {"a title", "\x1b]0;title\a", "\\x1b]0;title\\x07", "\\x1b]0;title\\x07"},
      {"a zero", std::string_view("a\0b", 3), "a\\x00b", "a\\x00b"},
      {"lines and tabs", "a\nerror: b\tc", "a\\x0aerror: b\\x09c", "a\nerror: b\tc"},
      {"back to the line's begin", "a\rb", "a\\x0db", "a\\x0db"},
      {"delete", "a\x7f", "a\\x7f", "a\\x7f"},
      {"control in eight bits", "\x9b" "31m", "\\x9b31m", "\\x9b31m"},
      {"control in UTF-8", "\xc2\x9b" "31m", "\\xc2\\x9b31m", "\\xc2\\x9b31m"},
      {"right to left", "a\xe2\x80\xae" "b", "a\\xe2\\x80\\xaeb", "a\\xe2\\x80\\xaeb"},
      {"cut", "a\xe2\x82", "a\\xe2\\x82", "a\\xe2\\x82"},
      {"too long a code", "\xc0\x9b", "\\xc0\\x9b", "\\xc0\\x9b"},
      {"half of a pair", "\xed\xa0\x80", "\\xed\\xa0\\x80", "\\xed\\xa0\\x80"},
      {"a byte alone, then a letter", "\xe9t\xc3\xa9", "\\xe9t\xc3\xa9", "\\xe9t\xc3\xa9"},
      {"none", "", "", ""},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(printable(row.text), row.want) << row.name;
    EXPECT_EQ(printable(row.text, Lines::kept), row.want_of_lines) << row.name;
    EXPECT_EQ(printable(row.want), row.want) << row.name << ", once more";
  }
}

}  // namespace
}  // namespace tandem
