// The grammar of layouts' tags: what is read, what is written, what is refused.
#include "graph/layout_tag.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

using Blocks = std::vector<LayoutTag::Block>;

struct Row {
  const char* text;
  std::vector<int> axes;
  Blocks blocks;
};
const Row rows[] = {
    {"a", {0}, {}},
    {"abcd", {0, 1, 2, 3}, {}},
    {"acdb", {0, 2, 3, 1}, {}},
    {"aBcd16b", {0, 1, 2, 3}, {{1, 16}}},
    {"ABcd16b16a2b", {0, 1, 2, 3}, {{1, 16}, {0, 16}, {1, 2}}},
    {"cdBA8a4b", {2, 3, 1, 0}, {{0, 8}, {1, 4}}},
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.text; }

class LayoutTags : public testing::TestWithParam<Row> {};

TEST_P(LayoutTags, AreReadAndWritten) {
  const Row& row = GetParam();
  const LayoutTag tag = tag_of(Layout(row.text));
  EXPECT_EQ(tag.axes, row.axes);
  EXPECT_EQ(tag.blocks, row.blocks);
  EXPECT_EQ(tag.layout().tag(), row.text);
}
INSTANTIATE_TEST_SUITE_P(Rows, LayoutTags, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.text); });

TEST(LayoutTag, SaysWhatBlocksHold) {
  const LayoutTag tag = tag_of(Layout("ABcd16b16a2b"));
  EXPECT_EQ(tag.block(1), 32);
  EXPECT_EQ(tag.block(0), 16);
  EXPECT_EQ(tag.block(2), 1);
  EXPECT_TRUE(tag.blocked(0));
  EXPECT_FALSE(tag.blocked(3));
}

TEST(LayoutTag, WhatIsNoneIsRefused) {
  for (const char* text : {"abcd16", "abcd0b", "abcd16B", "ab-cd", "ab5000b", "ab99999999999999999999b", "ab16bb", "ab16b "})
    EXPECT_FALSE(LayoutTag::read(text)) << text;
  for (const Layout& layout : {Layout(), Layout::opaque("cudnn.dropout")}) EXPECT_THROW(tag_of(layout), Error);
}

}  // namespace
}  // namespace tandem
