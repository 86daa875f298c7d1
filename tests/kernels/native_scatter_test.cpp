// GatherND, ScatterND, ScatterElements, running sums and TopK: indices that repeat, count from the end or lie outside, and any number
// of threads, whose results are the same bits.
#include <numeric>

#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
Attributes reducing(const char* reduction, std::int64_t batch_dims = 0) {
  return {{"reduction", std::string(reduction)}, {"batch_dims", batch_dims}};
}

TEST(NativeScatter, GatherNDTakesRowsAndNothingFromOutside) {
  const Case rows{"GatherND",
                  {{"batch_dims", std::int64_t{0}}},
                  {plain(DType::float32, {2, 2, 2}), plain(DType::int64, {4, 2})},
                  {plain(DType::float32, {4, 2})}};
  expect_near(run_values(rows, {{1, 2, 3, 4, 5, 6, 7, 8}, {1, -2, 0, 1, 0, 2, -3, 0}})[0], {5, 6, 3, 4, nan, nan, nan, nan}, 0, "rows");
  const Case batches{"GatherND",
                     {{"batch_dims", std::int64_t{1}}},
                     {plain(DType::int32, {2, 3}), plain(DType::int64, {2, 2, 1})},
                     {plain(DType::int32, {2, 2})}};
  EXPECT_EQ(run_values(batches, {{1, 2, 3, 4, 5, 6}, {0, -1, 1, 3}})[0], (Values{1, 3, 5, 0}));
}

TEST(NativeScatter, ScatterNDWritesRowsAndNothingOutside) {
  const Case none{"ScatterND",
                  reducing("none"),
                  {plain(DType::float32, {3, 2}), plain(DType::int64, {4, 1}), plain(DType::float32, {4, 2})},
                  {plain(DType::float32, {3, 2})}};
  const std::vector<Values> values{{1, 2, 3, 4, 5, 6}, {-1, 0, 3, 0}, {7, 8, 9, 10, 11, 12, 13, 14}};
  EXPECT_EQ(run_values(none, values)[0], (Values{13, 14, 3, 4, 7, 8}));  // of two rows at one place the last
  for (const auto& [reduction, wanted] : std::vector<std::pair<const char*, Values>>{
           {"add", {23, 26, 3, 4, 12, 14}}, {"mul", {117, 280, 3, 4, 35, 48}}, {"max", {13, 14, 3, 4, 7, 8}}, {"min", {1, 2, 3, 4, 5, 6}}}) {
    Case c = none;
    c.attributes = reducing(reduction);
    EXPECT_EQ(run_values(c, values)[0], wanted) << reduction;
  }
  const Case batches{"ScatterND",
                     reducing("add", 1),
                     {plain(DType::int64, {2, 3}), plain(DType::int64, {2, 2, 1}), plain(DType::int64, {2, 2})},
                     {plain(DType::int64, {2, 3})}};
  EXPECT_EQ(run_values(batches, {{1, 2, 3, 4, 5, 6}, {0, 0, -1, 7}, {10, 20, 30, 40}})[0], (Values{31, 2, 3, 4, 5, 36}));
}

TEST(NativeScatter, ANumberThatIsNoneWins) {
  for (const char* reduction : {"max", "min"}) {
    const Case c{"ScatterND",
                 reducing(reduction),
                 {plain(DType::float32, {2}), plain(DType::int64, {3, 1}), plain(DType::float32, {3})},
                 {plain(DType::float32, {2})}};
    expect_near(run_values(c, {{1, 2}, {0, 0, 1}, {nan, 5, 3}})[0], {nan, std::string(reduction) == "max" ? 3.0 : 2.0}, 0, reduction);
  }
}

TEST(NativeScatter, ScatterElementsWritesAlongAnAxisOfWhatIsLonger) {
  const Case c{"ScatterElements", {{"axis", std::int64_t{1}}, {"reduction", std::string("add")}},
               {plain(DType::float32, {3, 4}), plain(DType::int32, {2, 3}), plain(DType::float32, {2, 3})}, {plain(DType::float32, {3, 4})}};
  EXPECT_EQ(run_values(c, {Values(12, 1), {0, 0, -1, 4, 2, -5}, {1, 2, 3, 4, 5, 6}})[0], (Values{4, 1, 1, 4, 1, 1, 6, 1, 1, 1, 1, 1}));
}

// Sums of thousands of floats at a few places: by rows and, where these are few, by columns.
TEST(NativeScatter, SumsAreTheSameForAnyNumberOfThreads) {
  struct {
    const char* op;
    std::int64_t rows, inner, count;
  } const cases[] = {{"ScatterND", 37, 24, 5000}, {"ScatterND", 2, 1024, 300}, {"ScatterElements", 50, 1, 60000}};
  for (const auto& s : cases) {
    Case c{s.op,
           reducing("add"),
           {plain(DType::float32, {s.rows, s.inner}), plain(DType::int64, {s.count, 1}), plain(DType::float32, {s.count, s.inner})},
           {plain(DType::float32, {s.rows, s.inner})}};
    if (std::string(s.op) == "ScatterElements") c.attributes = {{"axis", std::int64_t{0}}, {"reduction", std::string("add")}};
    const Values x = random_values(s.rows * s.inner, 1), u = random_values(s.count * s.inner, 2);
    Values indices;
    for (std::int64_t i = 0; i < s.count; ++i) indices.push_back(static_cast<double>(i * i % (s.rows + 1) - (i % 3 == 0 ? s.rows : 0)));
    std::vector<float> wanted(x.begin(), x.end());
    for (std::int64_t i = 0; i < s.count; ++i) {
      std::int64_t row = static_cast<std::int64_t>(indices[static_cast<std::size_t>(i)]);
      row += row < 0 ? s.rows : 0;
      for (std::int64_t j = 0; j < s.inner && row < s.rows; ++j)
        wanted[static_cast<std::size_t>(row * s.inner + j)] += static_cast<float>(u[static_cast<std::size_t>(i * s.inner + j)]);
    }
    for (const int threads : {1, 3, 4, 16}) {
      c.threads = threads;
      EXPECT_EQ(run_values(c, {x, indices, u})[0], Values(wanted.begin(), wanted.end())) << s.op << ' ' << s.rows << ' ' << threads;
    }
  }
}

TEST(NativeCumulative, SumsAndProductsBothWays) {
  const auto run = [](const char* op, std::int64_t exclusive, std::int64_t reverse) {
    const Case c{op,
                 {{"axis", std::int64_t{1}}, {"exclusive", exclusive}, {"reverse", reverse}},
                 {plain(DType::float32, {1, 3, 2})},
                 {plain(DType::float32, {1, 3, 2})}};
    return run_values(c, {{1, 2, 3, 4, 5, 6}})[0];
  };
  EXPECT_EQ(run("CumSum", 0, 0), (Values{1, 2, 4, 6, 9, 12}));
  EXPECT_EQ(run("CumSum", 1, 0), (Values{0, 0, 1, 2, 4, 6}));
  EXPECT_EQ(run("CumSum", 0, 1), (Values{9, 12, 8, 10, 5, 6}));
  EXPECT_EQ(run("CumProd", 0, 0), (Values{1, 2, 3, 8, 15, 48}));
  EXPECT_EQ(run("CumProd", 1, 1), (Values{15, 24, 5, 6, 1, 1}));
}

// Of x = (2, 0, 3) and dy = (1, 10, 100): y = (2, 0, 0); dx = (1, 2·10 + 2·3·100, 0).
TEST(NativeCumulative, AProductsGradientPassesZeros) {
  const auto run = [](std::int64_t exclusive) {
    const Case c{"CumProdBackward",
                 {{"axis", std::int64_t{0}}, {"exclusive", exclusive}, {"reverse", std::int64_t{0}}},
                 {plain(DType::float64, {3}), plain(DType::float64, {3})},
                 {plain(DType::float64, {3})}};
    return run_values(c, {{1, 10, 100}, {2, 0, 3}})[0];
  };
  EXPECT_EQ(run(0), (Values{1, 620, 0}));
  EXPECT_EQ(run(1), (Values{10, 200, 0}));
}

TEST(NativeTopK, OfEqualElementsTheFirstAndNoNumberIsLargest) {
  for (const int threads : {1, 4}) {
    const auto run = [&](std::int64_t largest) {
      const Case c{"TopK",
                   {{"axis", std::int64_t{1}}, {"k", std::int64_t{3}}, {"largest", largest}},
                   {plain(DType::float32, {1, 5})},
                   {plain(DType::float32, {1, 3}), plain(DType::int64, {1, 3})},
                   threads};
      return run_values(c, {{4, 7, nan, 7, 1}});
    };
    expect_near(run(1)[0], {nan, 7, 7}, 0, "largest");
    EXPECT_EQ(run(1)[1], (Values{2, 1, 3}));
    expect_near(run(0)[0], {1, 4, 7}, 0, "smallest");
    EXPECT_EQ(run(0)[1], (Values{4, 0, 1}));
  }
}

TEST(NativeTopK, OfLinesOfAnyLengthAndStride) {
  for (const auto& [length, inner] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {5, 1}, {64, 1}, {65, 1}, {200, 1}, {1000, 1}, {40, 3}})
    for (const std::int64_t k : {1, 2, 5, 32, 33, 1000}) {
      if (k > length) continue;
      constexpr std::int64_t lines = 5;
      Values x = random_values(lines * length * inner, 7);
      for (double& v : x) v = std::round(8 * v);  // many are alike
      x[static_cast<std::size_t>(length * inner + length / 2 * inner)] = nan;
      for (std::int64_t i = 0; i < length * inner; ++i) x[static_cast<std::size_t>(2 * length * inner + i)] = static_cast<double>(i);
      for (const std::int64_t largest : {1, 0}) {
        Values wanted(static_cast<std::size_t>(lines * k * inner));
        for (std::int64_t line = 0; line < lines * inner; ++line) {
          const auto number = [&](std::int64_t i) {
            return x[static_cast<std::size_t>((line / inner * length + i) * inner + line % inner)];
          };
          std::vector<std::int64_t> order(static_cast<std::size_t>(length));
          std::iota(order.begin(), order.end(), 0);
          std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
            const double a = number(i), b = number(j);
            return largest ? a > b || (a != a && b == b) : a < b || (b != b && a == a);
          });
          for (std::int64_t i = 0; i < k; ++i)
            wanted[static_cast<std::size_t>((line / inner * k + i) * inner + line % inner)] =
                static_cast<double>(order[static_cast<std::size_t>(i)]);
        }
        const Case c{"TopK",
                     {{"axis", std::int64_t{1}}, {"k", k}, {"largest", largest}},
                     {plain(DType::float32, {lines, length, inner})},
                     {plain(DType::float32, {lines, k, inner}), plain(DType::int64, {lines, k, inner})},
                     2};
        EXPECT_EQ(run_values(c, {x})[1], wanted) << length << " " << inner << " " << k << " " << largest;
      }
    }
}

}  // namespace
}  // namespace tandem::native_tests
