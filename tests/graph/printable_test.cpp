#include "base/printable.h"

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
      {"an Arabic mark of direction", "a\u061c" "b", "a\\xd8\\x9cb", "a\\xd8\\x9cb"},
      {"a soft hyphen", "a\u00adb", "a\\xc2\\xadb", "a\\xc2\\xadb"},
      {"a filler", "a\u3164", "a\\xe3\\x85\\xa4", "a\\xe3\\x85\\xa4"},
      {"a tag", "a\U000e0041", "a\\xf3\\xa0\\x81\\x81", "a\\xf3\\xa0\\x81\\x81"},
      {"none", "", "", ""},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(printable(row.text), row.want) << row.name;
    EXPECT_EQ(printable(row.text, Lines::kept), row.want_of_lines) << row.name;
    EXPECT_EQ(printable(row.want), row.want) << row.name << ", once more";
  }
}

TEST(Printable, TextHoldsAnyBytes) {
  const struct {
    std::string_view bytes, text;
  } rows[] = {
      {"größe \x1b", "größe \x1b"}, {"caf\xe9", "caf\\xe9"},    {"\\xe9", "\\x5cxe9"}, {"\\\\xe9", "\\\\x5cxe9"},
      {"\\\xe9", "\\\\xe9"},          {"\\xE9 \\x", "\\xE9 \\x"}, {"\\x4\xff", "\\x4\\xff"},   {"\xe2\x82", "\\xe2\\x82"}, {"", ""},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(as_text(row.bytes), row.text);
    EXPECT_EQ(from_text(row.text), row.bytes);
    EXPECT_TRUE(is_utf8(row.text));
  }
  for (int i = 0; i < 1 << 18; ++i) {  // words of six of the signs that matter
    std::string word;
    for (int k = 0; k < 18; k += 3) word += "\\x5ce\xff\xc2 "[i >> k & 7];
    ASSERT_EQ(from_text(as_text(word)), word);
    ASSERT_EQ(from_text(printable(as_text(word))), word);
  }
  EXPECT_EQ(csv_cell("a,\"b\"\n\xff"), "\"a,\"\"b\"\"\\x0a\\xff\"");
}

}  // namespace
}  // namespace tandem
