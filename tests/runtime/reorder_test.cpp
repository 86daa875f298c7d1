#include "runtime/reorder.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>

namespace tandem {
namespace {

// Where element `index` lies: the definition, loop by loop.
std::int64_t place(const Shape& shape, const Layout& layout, const std::vector<std::int64_t>& index) {
  std::int64_t at = 0;
  for (const PhysicalDim& d : physical_dims(shape, layout)) at += index[static_cast<std::size_t>(d.axis)] / d.step % d.size * d.stride;
  return at;
}
void for_each_index(const Shape& shape, const std::function<void(const std::vector<std::int64_t>&)>& f) {
  std::vector<std::int64_t> index(shape.dims.size(), 0);
  for (std::int64_t n = shape.elements(); n > 0; --n) {
    f(index);
    for (std::size_t a = index.size(); a-- > 0;) {
      if (++index[a] < shape.dims[a]) break;
      index[a] = 0;
    }
  }
}

struct Row {
  Shape shape;
  std::string from, to;
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << concat(row.shape, ' ', row.from, ' ', row.to);
}
class Reorder : public testing::TestWithParam<Row> {};

template <class T>
void expect_reordered(const Row& row) {
  const Operand from{dtype_of<T>(), row.shape, Layout(row.from)}, to{dtype_of<T>(), row.shape, Layout(row.to)};
  const auto bytes = [](std::vector<T>& v) { return std::as_writable_bytes(std::span(v)); };
  std::vector<T> source(static_cast<std::size_t>(physical_elements(row.shape, from.layout)), T(0));
  T next = 1;
  for_each_index(row.shape, [&](const auto& i) { source[static_cast<std::size_t>(place(row.shape, from.layout, i))] = next++; });
  std::vector<T> target(static_cast<std::size_t>(physical_elements(row.shape, to.layout)), T(99)), want(target.size(), T(0));
  for_each_index(row.shape, [&](const auto& i) {
    want[static_cast<std::size_t>(place(row.shape, to.layout, i))] = source[static_cast<std::size_t>(place(row.shape, from.layout, i))];
  });
  reorder(from, bytes(source), to, bytes(target));
  EXPECT_EQ(target, want);
}
TEST_P(Reorder, PutsEveryElementInPlaceAndZerosTheRest) {
  expect_reordered<std::uint8_t>(GetParam());
  expect_reordered<std::int16_t>(GetParam());
  expect_reordered<float>(GetParam());
  expect_reordered<double>(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Rows, Reorder,
                         testing::Values(Row{{}, "a", "a"}, Row{{5}, "a", "a"}, Row{{2, 3}, "ab", "ba"}, Row{{0, 3}, "ab", "ba"},
                                         Row{{2, 3, 4, 5}, "abcd", "acdb"}, Row{{2, 20, 3, 1}, "abcd", "aBcd16b"},
                                         Row{{2, 20, 3, 1}, "aBcd16b", "abcd"}, Row{{5, 3, 2, 2}, "abcd", "ABcd4b2a"},
                                         Row{{5, 3, 2, 2}, "ABcd4b2a", "ABcd2a4b"}, Row{{9, 7}, "ba", "AB4b4a2b"},
                                         Row{{4, 18, 2}, "ABc2a16b", "abc"}));

TEST(ReorderRefuses, AnotherShapeOrTooFewBytes) {
  std::vector<std::byte> six(24), four(16);
  const Operand ab{DType::float32, {2, 3}, Layout("ab")}, ba{DType::float32, {2, 3}, Layout("ba")},
      other{DType::float32, {3, 2}, Layout("ab")};
  EXPECT_THROW(reorder(ab, six, other, six), Error);
  EXPECT_THROW(reorder(ab, four, ba, six), Error);
}

}  // namespace
}  // namespace tandem
