// A parameter in another order of axes, row by row against all at once.
#include "runtime/moved_parameter.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "runtime/parameter_parts.h"

namespace tandem {
namespace {

TEST(MovedParameter, IsInPiecesWhatItIsAtOnce) {
  std::mt19937 random(5);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
  const char* const orders[] = {"abc", "acb", "bac", "bca", "cab", "cba"};
  for (const char* source : {"", "abc", "acb", "bac", "bca", "cab", "cba"})
    for (const char* order : orders) {
      SCOPED_TRACE(concat("'", source, "' to '", order, "'"));
      const Shape shape{1 + below(5), 1 + below(5), 1 + below(5)};
      const PlanParameter p{.name = "w", .type = {DType::float32, shape}, .source = Layout(source)};
      const ParameterPart part{0, {DType::float32, shape, Layout(order)}, 0, {}};
      ASSERT_TRUE(MovedParameter::possible(p, part));
      const MovedParameter moved(p, part);
      std::vector<float> values(static_cast<std::size_t>(shape.elements()));
      std::iota(values.begin(), values.end(), 1.0F);
      const auto whole = std::as_bytes(std::span(values));
      const std::vector<std::byte> wanted = cut_part(p, part, Tensor::of<float>(shape, values));
      std::vector<std::byte> device(wanted.size()), back(wanted.size());
      for (std::int64_t first = 0; first < moved.rows();) {
        const std::int64_t count = 1 + below(moved.rows() - first), at = first * moved.row_bytes(), bytes = count * moved.row_bytes();
        const auto rows = whole.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(bytes));
        std::vector<std::byte> there(rows.size()), read(rows.size());
        moved.to_device_order(rows, there);
        moved.each_run(first, count, [&](std::int64_t to, std::int64_t from, std::int64_t n) {
          std::memcpy(device.data() + to, there.data() + from, static_cast<std::size_t>(n));
        });
        moved.each_run(first, count, [&](std::int64_t from, std::int64_t to, std::int64_t n) {
          std::memcpy(read.data() + to, wanted.data() + from, static_cast<std::size_t>(n));
        });
        moved.to_template_order(read, std::span(back).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(bytes)));
        first += count;
      }
      EXPECT_EQ(device, wanted);
      EXPECT_TRUE(std::ranges::equal(back, whole));
    }
}

TEST(MovedParameter, IsNotPossibleWithBlocksOrParts) {
  const Shape shape{32, 32};
  const PlanParameter p{.name = "w", .type = {DType::float32, shape}};
  EXPECT_TRUE(MovedParameter::possible(p, {0, {DType::float32, shape, Layout("ba")}, 0, {}}));
  EXPECT_FALSE(MovedParameter::possible(p, {0, {DType::float32, shape, Layout("Ab16a")}, 0, {}}));
  EXPECT_FALSE(MovedParameter::possible(p, {0, {DType::float32, {16, 32}, Layout("ba")}, 0, {{.axis = 0, .size = 16}}}));
}

}  // namespace
}  // namespace tandem
