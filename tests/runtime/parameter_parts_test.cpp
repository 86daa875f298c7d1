// What a device keeps of a parameter, cut along several axes and several times along one.
#include "runtime/parameter_parts.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

namespace tandem {
namespace {

// The indices of an axis that ranges leave, one by one.
std::vector<std::int64_t> indices_of(std::int64_t size, int axis, const std::vector<AxisRange>& ranges) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(size));
  std::iota(indices.begin(), indices.end(), 0);
  for (const AxisRange& r : ranges) {
    if (r.axis != axis) continue;
    std::vector<std::int64_t> kept;
    const std::int64_t run = std::ssize(indices) / r.outer;
    std::vector<std::int64_t> widths = r.widths;
    if (widths.empty()) widths.assign(static_cast<std::size_t>(r.outer), 1);
    std::int64_t place = 0;
    for (const std::int64_t width : widths) {
      for (std::int64_t i = 0; i < width * r.size; ++i) kept.push_back(indices[static_cast<std::size_t>(place + width * r.begin + i)]);
      place += width * run;
    }
    indices = std::move(kept);
  }
  return indices;
}

TEST(ParameterParts, AreCutAndPutBackAsOneByOne) {
  std::mt19937 random(7);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
  for (int round = 0; round < 500; ++round) {
    const Shape whole{1 + below(12), 1 + below(12), 1 + below(4)};
    std::vector<AxisRange> ranges;
    for (int cuts = static_cast<int>(below(4)); cuts > 0; --cuts) {
      AxisRange r{.axis = static_cast<int>(below(3))};
      const std::int64_t size = (*shape_of(whole, ranges))[r.axis];
      if (size == 0) continue;
      do r.outer = 1 + below(size);
      while (size % r.outer != 0);
      if (below(2) == 0)
        for (std::int64_t left = r.outer; left > 0; left -= r.widths.back()) r.widths.push_back(1 + below(left));
      r.begin = below(size / r.outer);
      r.size = 1 + below(size / r.outer - r.begin);
      ranges.push_back(r);
    }
    const Shape part = *shape_of(whole, ranges);
    SCOPED_TRACE(concat(whole, " to ", part, " by ", ranges.size()));
    const PlanParameter p{.name = "w", .type = {DType::float32, whole}};
    const ParameterPart own{0, {DType::float32, part, Layout("abc")}, 0, ranges};
    std::vector<float> values(static_cast<std::size_t>(whole.elements()));
    std::iota(values.begin(), values.end(), 1.0F);
    std::vector<float> wanted, back(values.size()), put(values.size());
    for (const std::int64_t i : indices_of(whole[0], 0, ranges))
      for (const std::int64_t j : indices_of(whole[1], 1, ranges))
        for (const std::int64_t k : indices_of(whole[2], 2, ranges)) {
          const auto at = static_cast<std::size_t>((i * whole[1] + j) * whole[2] + k);
          wanted.push_back(values[at]);
          back[at] = values[at];
        }
    ASSERT_EQ(part.elements(), std::ssize(wanted));
    const std::vector<std::byte> cut = cut_part(p, own, Tensor::of<float>(whole, values));
    ASSERT_EQ(cut.size(), wanted.size() * sizeof(float));
    EXPECT_EQ(std::memcmp(cut.data(), wanted.data(), cut.size()), 0);
    put_part(p, own, cut, std::as_writable_bytes(std::span(put)));
    EXPECT_EQ(put, back);
  }
}

TEST(ParameterParts, RangesThatDoNotFitAreNone) {
  const Shape whole{6, 4};
  for (const std::vector<AxisRange>& ranges : std::vector<std::vector<AxisRange>>{
           {{2, 0, 1}}, {{-1, 0, 1}}, {{0, 4, 3}}, {{0, -1, 3}}, {{0, 0, 1, 4}}, {{0, 0, 1, 0}}, {{0, 0, 3}, {0, 2, 2}}, {{0, 2, INT64_MAX}}})
    EXPECT_FALSE(shape_of(whole, ranges)) << ranges[0].axis << ' ' << ranges[0].begin;
  EXPECT_EQ(shape_of(whole, std::vector<AxisRange>{{0, 1, 2, 2}, {1, 3, 1}}), (Shape{4, 1}));
}

}  // namespace
}  // namespace tandem
