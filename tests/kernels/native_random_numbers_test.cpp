// RandomNumbers by its contract (docs/internal-operators.md). The words themselves: native_dropout_test.cpp.
#include <cmath>

#include "kernels/cpu/isa.h"
#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

constexpr std::int64_t layer = 77;

Case drawn(DType dtype, const Shape& shape, Attributes more = {}, int threads = 1) {
  more.set("layer", layer);
  return {"RandomNumbers", more, {plain(DType::int64, {4})}, {plain(dtype, shape)}, threads};
}
Values numbers(const Case& c, const Values& random) { return run_values(c, {random})[0]; }

// Element e of the stream.
double number(std::int64_t element, const vector::PhiloxState& state) {
  std::uint32_t word = 0;
  vector_table().philox_run(&word, element, 1, state);
  return (word + 0.5) * 0x1p-32;
}

struct Row {
  const char* name;
  Shape shape;
  Attributes attributes;
  std::int64_t (*element)(std::int64_t o, std::int64_t s, std::int64_t i);  // of the stream, where the first sample is number 5
  std::int64_t outside, samples, inside;
};
const Row rows[] = {
    {"without samples", {3, 7}, {}, [](std::int64_t, std::int64_t, std::int64_t i) { return i; }, 1, 1, 21},
    {"rows", {3, 700}, {{"axis", std::int64_t{0}}}, [](std::int64_t, std::int64_t s, std::int64_t i) { return (5 + s) * 700 + i; }, 1, 3, 700},
    {"several rows a sample", {6, 7}, {{"axis", std::int64_t{0}}, {"inner", std::int64_t{2}}}, [](std::int64_t, std::int64_t s, std::int64_t i) { return (5 + s) * 14 + i; }, 1, 3, 14},
    {"along axis 1", {4, 3, 5}, {{"axis", std::int64_t{1}}}, [](std::int64_t o, std::int64_t s, std::int64_t i) { return (5 + s) * 20 + o * 5 + i; }, 4, 3, 5},
    {"inside of others", {12, 5}, {{"axis", std::int64_t{0}}, {"outer", std::int64_t{2}}, {"inner", std::int64_t{2}}}, [](std::int64_t o, std::int64_t s, std::int64_t i) { return (5 + s) * 20 + o * 10 + i; }, 2, 3, 10},
};

TEST(NativeRandomNumbers, AreCountedBySample) {
  const vector::PhiloxState state{{12345, 3u ^ layer}, {9, 0}};
  for (const Row& row : rows) {
    Values wanted;
    for (std::int64_t o = 0; o < row.outside; ++o)
      for (std::int64_t s = 0; s < row.samples; ++s)
        for (std::int64_t i = 0; i < row.inside; ++i) wanted.push_back(number(row.element(o, s, i), state));
    for (const int threads : {1, 3}) {
      EXPECT_EQ(numbers(drawn(DType::float64, row.shape, row.attributes, threads), {12345.0 + 4294967296.0 * 3, 9, 5, 0}), wanted)
          << row.name;
      expect_near(numbers(drawn(DType::float32, row.shape, row.attributes, threads), {12345.0 + 4294967296.0 * 3, 9, 5, 0}), wanted,
                  epsilon_of(DType::float32), row.name);
    }
  }
}

TEST(NativeRandomNumbers, OfASeedOfTheirOwnDoNotDependOnTheRuns) {
  const Attributes seeded{{"seed", std::int64_t{42}}};
  const Values a = numbers(drawn(DType::float32, {50}, seeded), {1, 2, 0, 0});
  EXPECT_EQ(numbers(drawn(DType::float32, {50}, seeded), {7, 2, 0, 0}), a);
  EXPECT_NE(numbers(drawn(DType::float32, {50}, seeded), {1, 3, 0, 0}), a);
}

TEST(NativeRandomNumbers, AreUniformAndNeverZeroOrOne) {
  const Values u = numbers(drawn(DType::float32, {1 << 20}), {3, 4, 0, 0});
  double sum = 0, squares = 0;
  for (const double v : u) {
    ASSERT_GT(v, 0);
    ASSERT_LT(v, 1);
    sum += v;
    squares += v * v;
  }
  const double n = static_cast<double>(u.size()), mean = sum / n;
  EXPECT_NEAR(mean, 0.5, 5 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(squares / n - mean * mean, 1.0 / 12, 1e-3);
}

}  // namespace
}  // namespace tandem::native_tests
