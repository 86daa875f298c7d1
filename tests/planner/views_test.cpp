#include "graph/views.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

std::vector<std::int64_t> index_of(const Shape& shape, std::int64_t element) {
  std::vector<std::int64_t> index(shape.dims.size());
  for (int a = shape.rank() - 1; a >= 0; --a) {
    index[static_cast<std::size_t>(a)] = element % shape[a];
    element /= shape[a];
  }
  return index;
}

// Where in memory each element of a row-major tensor lies under a layout.
std::vector<std::int64_t> places(const Shape& shape, const Layout& layout) {
  std::vector<std::int64_t> at;
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    const auto index = index_of(shape, i);
    std::int64_t place = 0;
    for (const PhysicalDim& d : physical_dims(shape, layout)) place += index[static_cast<std::size_t>(d.axis)] / d.step % d.size * d.stride;
    at.push_back(place);
  }
  return at;
}

TEST(Views, TransposeSharesMemory) {
  struct Row {
    Shape shape;
    std::string tag;
    Ints perm;
  };
  const std::vector<Row> rows = {{{2, 3, 4, 5}, "abcd", {0, 2, 3, 1}},
                                 {{2, 3, 4, 5}, "acdb", {0, 3, 1, 2}},
                                 {{2, 16, 4, 5}, "aBcd8b", {1, 0, 3, 2}},
                                 {{6, 4}, "ba", {1, 0}}};
  for (const Row& row : rows) {
    Shape to = row.shape;
    for (std::size_t i = 0; i < row.perm.size(); ++i) to.dims[i] = row.shape[static_cast<int>(row.perm[i])];
    const auto before = places(row.shape, Layout(row.tag)), after = places(to, transposed(Layout(row.tag), row.perm));
    for (std::int64_t i = 0; i < to.elements(); ++i) {
      const auto index = index_of(to, i);
      std::int64_t source = 0;
      std::vector<std::int64_t> from(index.size());
      for (std::size_t a = 0; a < row.perm.size(); ++a) from[static_cast<std::size_t>(row.perm[a])] = index[a];
      for (int a = 0; a < row.shape.rank(); ++a) source = source * row.shape[a] + from[static_cast<std::size_t>(a)];
      ASSERT_EQ(after[static_cast<std::size_t>(i)], before[static_cast<std::size_t>(source)]) << row.tag;
    }
  }
}

TEST(Views, ReshapeSharesMemoryOrDeclines) {
  struct Row {
    Shape from;
    std::string tag;
    Shape to;
    std::string want;  // empty: elements would have to move
  };
  const std::vector<Row> rows = {
      {{2, 3, 4}, "abc", {6, 4}, "ab"},          {{10, 12}, "ba", {10, 3, 4}, "bca"}, {{10, 12}, "ba", {120}, ""},
      {{8, 64, 1, 1}, "aBcd16b", {8, 64}, "ab"}, {{8, 64, 2, 2}, "aBcd16b", {8, 256}, ""}, {{8, 5, 2, 2}, "acdb", {8, 20}, ""},
      {{8, 5, 1, 1}, "acdb", {8, 5}, "ab"},      {{8, 20}, "ab", {8, 20, 1, 1}, "abcd"},
  };
  for (const Row& row : rows) {
    const auto got = reshaped(row.from, Layout(row.tag), row.to);
    ASSERT_EQ(got.has_value(), !row.want.empty()) << to_string(row.from) << row.tag;
    if (!got) continue;
    EXPECT_EQ(places(row.from, Layout(row.tag)), places(row.to, *got)) << got->tag();
  }
}

}  // namespace
}  // namespace tandem
