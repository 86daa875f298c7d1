#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "planner/compile.h"

namespace tandem {
namespace {

struct Row {
  std::string name;
  std::int64_t batch;
  std::vector<double> weights;
  std::vector<std::int64_t> sizes;
};

TEST(SliceSizes, Rows) {
  const std::vector<Row> rows = {
      {"one device", 7, {1}, {7}},
      {"equal", 8, {1, 1, 1, 1}, {2, 2, 2, 2}},
      {"the rest goes to the first among equals", 7, {1, 1, 1}, {3, 2, 2}},
      {"by weight", 128, {3, 1}, {96, 32}},
      {"by weight, not dividing", 10, {3, 1}, {8, 2}},
      {"thirds are exact", 9, {1.0 / 3, 1.0 / 3, 1.0 / 3}, {3, 3, 3}},
      {"zero weight gets nothing", 5, {1, 0, 1}, {3, 0, 2}},
      {"fewer samples than devices", 2, {1, 1, 1, 1}, {1, 1, 0, 0}},
      {"the largest remainder first", 3, {0.2, 0.8}, {1, 2}},
  };
  for (const Row& row : rows) EXPECT_EQ(slice_sizes(row.batch, row.weights), row.sizes) << row.name;
}

TEST(SliceSizes, AreFloorOrCeilingAndSumToTheBatch) {
  for (std::int64_t batch = 1; batch < 60; ++batch)
    for (const std::vector<double>& w : {std::vector<double>{2, 1, 1, 1}, {1, 7, 3}, {0.1, 0.2, 0.7, 0, 5}}) {
      const auto sizes = slice_sizes(batch, w);
      const double total = std::accumulate(w.begin(), w.end(), 0.0);
      EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}), batch);
      for (std::size_t i = 0; i < w.size(); ++i)
        EXPECT_LT(std::abs(static_cast<double>(sizes[i]) - static_cast<double>(batch) * w[i] / total), 1.0);
    }
}

TEST(SliceSizes, Refuses) {
  for (const std::vector<double>& w : {std::vector<double>{0, 0},
                                       {1, -1},
                                       {1, std::numeric_limits<double>::infinity()},
                                       {1e308, 1e308},
                                       {std::numeric_limits<double>::quiet_NaN()},
                                       {}})
    EXPECT_THROW(slice_sizes(4, w), Error);
}

}  // namespace
}  // namespace tandem
