// Numbers as elements of 8 bits and less, by the tables of ONNX's Cast; and back. What each code is stands here once more, as a formula of
// its own, and what a number becomes is searched among all codes.
#include "graph/small_types.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "graph/tensor.h"

namespace tandem {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

struct Row {
  DType type;
  double from, saturated, otherwise;  // what the element is, by `saturate`
};

TEST(SmallTypes, RoundToTheNearestAndEndAsTheTypeSays) {
  using enum DType;
  const Row rows[] = {
      {float8e4m3fn, 464, 448, 448},    {float8e4m3fn, 464.0001, 448, nan},  {float8e4m3fn, inf, 448, nan},   {float8e4m3fn, -1e6, -448, nan},
      {float8e4m3fn, 1.0625, 1, 1},     {float8e4m3fn, 1.1875, 1.25, 1.25},  {float8e4m3fn, 0x1p-10, 0, 0},   {float8e4m3fn, nan, nan, nan},
      {float8e4m3fnuz, 300, 240, nan},  {float8e4m3fnuz, -0.0, 0, 0},        {float8e5m2, 1e6, 57344, inf},   {float8e5m2, -inf, -57344, -inf},
      {float8e5m2fnuz, inf, 57344, nan}, {float4e2m1, -3.5, -4, -4},         {float4e2m1, 2.5, 2, 2},         {float4e2m1, inf, 6, 6},
      {float6e2m3, 9, 7.5, 7.5},        {float6e3m2, 29, 28, 28},            {float8e8m0, 1.1, 2, 2},         {float8e8m0, inf, 0x1p127, nan},
      {float8e8m0, 0, 0x1p-127, nan},   {float8e8m0, -1, nan, nan},          {int4, 9, -7, -7},               {uint4, -1, 15, 15},
      {int2, -3, 1, 1},                 {uint2, 5, 1, 1},
      {float8e4m3fn, 1.0625 + 0x1p-40, 1.125, 1.125},  // a double is rounded once
  };
  for (const Row& row : rows)
    for (const bool saturate : {true, false}) {
      const double got = number_of(element_of(row.from, row.type, {saturate, RoundMode::up}), row.type),
                   want = saturate ? row.saturated : row.otherwise;
      EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want)))
          << row.from << " as " << name_of(row.type) << ", saturate " << saturate << ": " << got << ", expected " << want;
    }
}

TEST(SmallTypes, PowersOfTwoRoundAsTheModeSays) {
  const auto as = [](double v, RoundMode mode) { return number_of(element_of(v, DType::float8e8m0, {true, mode}), DType::float8e8m0); };
  EXPECT_EQ(as(2.5, RoundMode::up), 4);
  EXPECT_EQ(as(3.9, RoundMode::down), 2);
  EXPECT_EQ(as(3, RoundMode::nearest), 4);
  EXPECT_EQ(as(2.9, RoundMode::nearest), 2);
}

// (−1)^sign · 2^(exponent − bias) · 1.mantissa, below the least exponent 0.mantissa; codes that are infinite or no numbers are listed.
struct Format {
  DType type;
  int exponent, mantissa, bias;
  bool has_sign = true;
  std::vector<int> infinite, no_number;
};
void PrintTo(const Format& format, std::ostream* out) { *out << name_of(format.type); }

const Format formats[] = {
    {DType::float8e4m3fn, 4, 3, 7, true, {}, {0x7f, 0xff}},
    {DType::float8e4m3fnuz, 4, 3, 8, true, {}, {0x80}},
    {DType::float8e5m2, 5, 2, 15, true, {0x7c, 0xfc}, {0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff}},
    {DType::float8e5m2fnuz, 5, 2, 16, true, {}, {0x80}},
    {DType::float6e2m3, 2, 3, 1},
    {DType::float6e3m2, 3, 2, 3},
    {DType::float4e2m1, 2, 1, 1},
};

double value_of(const Format& f, int code) {
  const int width = f.exponent + f.mantissa, sign = code >> width, e = code >> f.mantissa & ((1 << f.exponent) - 1),
            m = code & ((1 << f.mantissa) - 1);
  if (std::ranges::count(f.no_number, code)) return nan;
  const double size = std::ranges::count(f.infinite, code) ? inf
                      : e == 0                             ? std::ldexp(m, 1 - f.bias - f.mantissa)
                                                           : std::ldexp((1 << f.mantissa) + m, e - f.bias - f.mantissa);
  return sign ? -size : size;
}

bool same(double a, double b) { return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b); }

class EveryCode : public testing::TestWithParam<Format> {};

TEST_P(EveryCode, IsTheNumberThatItsBitsSay) {
  const Format& f = GetParam();
  for (int code = 0; code < 2 << (f.exponent + f.mantissa); ++code)
    EXPECT_TRUE(same(number_of(static_cast<std::uint8_t>(code), f.type), value_of(f, code)))
        << code << " is " << number_of(static_cast<std::uint8_t>(code), f.type) << ", expected " << value_of(f, code);
}

// Of two codes that are as near the one with an even last bit; codes that lie beside each other, but for their sign, differ in it.
TEST_P(EveryCode, IsWhatTheNumbersNearestToItBecome) {
  const Format& f = GetParam();
  const int signs = 1 << (f.exponent + f.mantissa);
  std::vector<double> sizes;  // by code, without a sign, as long as they are finite
  while (static_cast<int>(sizes.size()) < signs && std::isfinite(value_of(f, static_cast<int>(sizes.size()))))
    sizes.push_back(value_of(f, static_cast<int>(sizes.size())));
  const double beyond = 2 * sizes.back() - sizes[sizes.size() - 2];  // the next, were there one
  std::vector<double> from;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i)
    for (const double middle = (sizes[i] + sizes[i + 1]) / 2;
         const double v : {sizes[i], middle, std::nextafter(middle, 0.0), std::nextafter(middle, inf)})
      from.push_back(v);
  std::mt19937_64 random(1);
  for (int i = 0; i < 4000; ++i)
    from.push_back(std::ldexp(std::uniform_real_distribution<>(1, 2)(random), std::uniform_int_distribution<>(-24, 17)(random)));
  for (const double v : from) {
    std::size_t best = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (const double d = std::abs(sizes[i] - v), least = std::abs(sizes[best] - v); d < least || (d == least && i % 2 == 0)) best = i;
    const double over = std::abs(beyond - v), near = std::abs(sizes[best] - v);
    const bool fits = near < over || (near == over && best % 2 == 0);
    for (const double x : {v, -v}) {
      const bool lost_sign = best == 0 && !f.no_number.empty() && f.no_number[0] == signs;  // its code is the NaN's
      const double nearest = std::signbit(x) && !lost_sign ? -sizes[best] : sizes[best];
      const double wanted = fits || f.no_number.empty() ? nearest : f.infinite.empty() ? nan : std::copysign(inf, x);
      const double ends = number_of(element_of(x, f.type, {true, RoundMode::up}), f.type),
                   leaves = number_of(element_of(x, f.type, {false, RoundMode::up}), f.type);
      EXPECT_TRUE(same(ends, nearest)) << x << " became " << ends << ", expected " << nearest;
      EXPECT_TRUE(same(leaves, wanted)) << x << " became " << leaves << ", expected " << wanted << " without saturation";
    }
  }
}
INSTANTIATE_TEST_SUITE_P(SmallTypes, EveryCode, testing::ValuesIn(formats),
                         [](const auto& row) { return std::string(name_of(row.param.type)); });

TEST(SmallTypes, PowersOfTwoAreTheirExponents) {
  for (int code = 0; code < 255; ++code) {
    const double v = std::ldexp(1.0, code - 127);
    EXPECT_EQ(number_of(static_cast<std::uint8_t>(code), DType::float8e8m0), v);
    for (const double x : {v, 1.25 * v, 1.5 * v, 1.75 * v}) {
      const int next = std::min(code + 1, 254);
      EXPECT_EQ(element_of(x, DType::float8e8m0, {true, RoundMode::up}), x > v ? next : code) << x;
      EXPECT_EQ(element_of(x, DType::float8e8m0, {true, RoundMode::down}), code) << x;
      EXPECT_EQ(element_of(x, DType::float8e8m0, {true, RoundMode::nearest}), x < 1.5 * v ? code : next) << x;
    }
  }
  EXPECT_TRUE(std::isnan(number_of(255, DType::float8e8m0)));
}

TEST(SmallTypes, IntegersWrapToTheirBits) {
  for (const DType t : {DType::int4, DType::uint4, DType::int2, DType::uint2}) {
    const int width = bits_of(t), count = 1 << width;
    for (int v = -300; v <= 300; ++v) {
      const int low = ((v % count) + count) % count,
                wanted = (t == DType::int4 || t == DType::int2) && low >= count / 2 ? low - count : low;
      EXPECT_EQ(number_of(element_of(v, t), t), wanted) << v << " as " << name_of(t);
    }
  }
}

TEST(SmallTypes, EveryElementComesBack) {
  for (const DType t : {DType::float8e4m3fn, DType::float8e4m3fnuz, DType::float8e5m2, DType::float8e5m2fnuz, DType::float6e2m3,
                        DType::float6e3m2, DType::float4e2m1, DType::float8e8m0})
    for (int code = 0; code < 1 << bits_of(t); ++code) {
      const double v = number_of(static_cast<std::uint8_t>(code), t);
      if (!std::isnan(v)) {
        EXPECT_EQ(element_of(v, t, {false, RoundMode::up}), code) << name_of(t);
      }
    }
}

TEST(SmallTypes, TensorsAreCastThereAndBack) {
  const Tensor x = Tensor::of<float>(Shape{4}, {-9, 0.3F, 7, 2.6F});
  EXPECT_EQ(x.cast(DType::int4).to_int64s(), (std::vector<std::int64_t>{7, 0, 7, 2}));
  EXPECT_EQ(x.cast(DType::float4e2m1).to_doubles(), (std::vector<double>{-6, 0.5, 6, 3}));
  EXPECT_EQ(Tensor::of<std::int64_t>(Shape{1}, {19}).cast(DType::uint4).to_int64s(), (std::vector<std::int64_t>{3}));
}

}  // namespace
}  // namespace tandem
