#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

struct Reduce {
  const char* op;
  double start;
  double (*f)(double, double);
};
const Reduce reduces[] = {
    {"ReduceSum", 0, [](double a, double b) { return a + b; }},
    {"ReduceMean", 0, [](double a, double b) { return a + b; }},
    {"ReduceMax", -std::numeric_limits<double>::infinity(), [](double a, double b) { return std::max(a, b); }},
    {"ReduceMin", std::numeric_limits<double>::infinity(), [](double a, double b) { return std::min(a, b); }},
    {"ReduceProd", 1, [](double a, double b) { return a * b; }},
};

struct Row {
  Shape x;
  Ints axes;
};
const Row rows[] = {
    {{2, 20, 5, 7}, {2, 3}}, {{2, 20, 5, 7}, {1}},    {{2, 20, 5, 7}, {0, 2, 3}}, {{2, 20, 5, 7}, {0}},       {{2, 20, 5, 7}, {3}},
    {{2, 20, 5, 7}, {0, 1}}, {{2, 20, 5, 7}, {1, 3}}, {{2, 20, 5, 7}, {0, 1, 2, 3}}, {{3, 1, 5, 1}, {1, 3}}, {{1, 600, 3, 3}, {2, 3}},
    {{64, 16, 30, 3}, {0, 2, 3}}, {{4, 3, 0, 2}, {2}}, {{2, 1100, 2, 2}, {0}}, {{2, 20, 7, 7}, {2, 3}}, {{3, 20, 10, 10}, {2, 3}},
};

Values oracle(const Reduce& r, const Shape& x, const Values& v, const Ints& axes, const Shape& kept) {
  Values y(static_cast<std::size_t>(kept.elements()), r.start);
  double count = 1;
  for (const std::int64_t axis : axes) count *= static_cast<double>(x[static_cast<int>(axis)]);
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    std::int64_t to = 0, stride = 1, rest = i;
    for (int axis = x.rank() - 1; axis >= 0; rest /= x[axis], stride *= kept[axis], --axis)
      if (kept[axis] != 1) to += rest % x[axis] * stride;
    double& at = y[static_cast<std::size_t>(to)];
    at = r.f(at, v[static_cast<std::size_t>(i)]);
  }
  if (std::string_view(r.op) == "ReduceMean")
    for (double& at : y) at /= count;
  return y;
}

TEST(NativeReduce, EveryReductionInEveryLayout) {
  for (const Row& row : rows)
    for (const Reduce& r : reduces)
      for (const DType dtype : {DType::float32, DType::float64})
        for (const char* tag : {"abcd", "acdb", "aBcd16b", "aBcd8b"})
          for (const bool keep : {true, false})
            for (const int threads : {1, 3}) {
              Shape kept = row.x, y;
              for (const std::int64_t axis : row.axes) kept[static_cast<int>(axis)] = 1;
              for (int axis = 0; axis < kept.rank(); ++axis)
                if (keep || std::find(row.axes.begin(), row.axes.end(), axis) == row.axes.end()) y.dims.push_back(kept[axis]);
              const Case c{
                  r.op, {{"axes", row.axes}, {"keepdims", std::int64_t{keep}}}, {operand(dtype, row.x, tag)}, {operand(dtype, y)}, threads};
              // Products of many numbers near 1; sums of positive ones, so that errors are relative to the sum.
              const Values v = random_values(row.x.elements(), 4, 0.98, 1.02);
              const double n = static_cast<double>(row.x.elements()) / std::max(1.0, static_cast<double>(kept.elements()));
              const std::string what = concat(r.op, " ", row.x, tag, " axes ", Shape(row.axes), " ", dtype);
              expect_near(run_values(c, {v})[0], oracle(r, row.x, v, row.axes, kept), epsilon_of(dtype) * 4 * std::sqrt(std::max(n, 4.0)),
                          what);
            }
}

TEST(NativeReduce, LongSumsKeepTheirPrecision) {
  for (const char* isa : isas) {
    const WithIsa with(isa);
    const std::int64_t n = 1 << 20;
    const Case all{
        "ReduceSum", {{"axes", Ints{0}}, {"keepdims", std::int64_t{0}}}, {plain(DType::float32, {n})}, {plain(DType::float32, {})}};
    const Values v = random_values(n, 1, 0, 1);
    double sum = 0;
    for (const double x : v) sum += x;
    EXPECT_NEAR(run_values(all, {v})[0][0] / sum, 1, 2e-6) << isa;
    const Case columns{
        "ReduceSum", {{"axes", Ints{0}}, {"keepdims", std::int64_t{0}}}, {plain(DType::float32, {n / 4, 4})}, {plain(DType::float32, {4})}};
    const Values got = run_values(columns, {v})[0];
    EXPECT_NEAR((got[0] + got[1] + got[2] + got[3]) / sum, 1, 2e-6) << isa;
  }
}

TEST(NativeReduce, SameBitsTwice) {
  const Case c{"ReduceSum",
               {{"axes", Ints{0, 2, 3}}, {"keepdims", std::int64_t{1}}},
               {operand(DType::float32, {16, 20, 30, 31}, "aBcd16b")},
               {operand(DType::float32, {1, 20, 1, 1})},
               3};
  const Values v = random_values(c.inputs[0].shape.elements(), 1);
  const Values first = run_values(c, {v})[0];
  for (int i = 0; i < 4; ++i) EXPECT_EQ(run_values(c, {v})[0], first);
}

TEST(NativeReduce, WholeNumbersAndNaN) {
  const auto reduce = [](const char* op, DType dtype, const Values& v) {
    const Shape shape{static_cast<std::int64_t>(v.size())};
    return run_values({op, {{"axes", Ints{0}}, {"keepdims", std::int64_t{1}}}, {plain(dtype, shape)}, {plain(dtype, {1})}}, {v})[0][0];
  };
  EXPECT_EQ(reduce("ReduceSum", DType::int64, {1, -5, 7}), 3);
  EXPECT_EQ(reduce("ReduceMean", DType::int32, {4, 5, 9}), 6);
  EXPECT_EQ(reduce("ReduceMax", DType::uint8, {3, 200, 7}), 200);
  EXPECT_EQ(reduce("ReduceMin", DType::int8, {3, -100, 7}), -100);
  EXPECT_EQ(reduce("ReduceMax", DType::boolean, {0, 1, 0}), 1);
  EXPECT_TRUE(std::isnan(reduce("ReduceMax", DType::float32, {1, std::numeric_limits<double>::quiet_NaN(), 2})));
  EXPECT_EQ(reduce("ReduceMax", DType::float32, {}), -std::numeric_limits<double>::infinity());
}

TEST(NativeReduce, ArgMaxTakesTheFirstOrTheLastOfEquals) {
  const Values v = {1, 5, 5, 2, 7, 3, 7, 0};
  const auto arg = [&](const char* op, std::int64_t axis, std::int64_t last, const Shape& y) {
    return run_values({op,
                       {{"axis", axis}, {"keepdims", std::int64_t{0}}, {"select_last_index", last}},
                       {plain(DType::float32, {2, 4})},
                       {plain(DType::int64, y)}},
                      {v})[0];
  };
  EXPECT_EQ(arg("ArgMax", 1, 0, {2}), (Values{1, 0}));
  EXPECT_EQ(arg("ArgMax", 1, 1, {2}), (Values{2, 2}));
  EXPECT_EQ(arg("ArgMax", 0, 0, {4}), (Values{1, 0, 1, 0}));
  EXPECT_EQ(arg("ArgMin", 1, 0, {2}), (Values{0, 3}));
}

TEST(NativeReduce, ArgMaxFindsTheFirstInRowsOfAnyLength) {
  for (const DType dtype : {DType::float32, DType::float64})
    for (const std::int64_t length : {1, 5, 63, 64, 65, 128, 200, 1000}) {
      constexpr std::int64_t rows = 7;
      Values x = random_values(rows * length, 3);
      for (double& v : x) v = std::round(8 * v);  // many are alike
      x[static_cast<std::size_t>(2 * length + length / 2)] = std::numeric_limits<double>::quiet_NaN();
      x[static_cast<std::size_t>(3 * length + length - 1)] = std::numeric_limits<double>::infinity();
      std::fill_n(x.begin() + 4 * length, length, -std::numeric_limits<double>::infinity());
      Values wanted;
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto at = x.begin() + row * length;
        const auto nan = std::find_if(at, at + length, [](double v) { return v != v; });
        wanted.push_back(static_cast<double>((nan != at + length ? nan : std::max_element(at, at + length)) - at));
      }
      EXPECT_EQ(run_values({"ArgMax",
                            {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}},
                            {plain(dtype, {rows, length})},
                            {plain(DType::int64, {rows})},
                            2},
                           {x})[0],
                wanted)
          << name_of(dtype) << " " << length;
    }
}

}  // namespace
}  // namespace tandem::native_tests
