#include "data/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "trainer/feed/loader.h"

namespace tandem {
namespace {

// Known answers of Philox4x32-10, from the paper's own test vectors.
TEST(Random, PhiloxGivesItsKnownAnswers) {
  const std::array<std::uint32_t, 4> zeros{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), zeros);
  const std::array<std::uint32_t, 4> ones{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}), ones);
}

TEST(Random, NormalHasMean0AndVariance1) {
  Random random(1, 2);
  constexpr int n = 100000;
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double v = random.normal();
    sum += v;
    squares += v * v;
    ASSERT_LE(std::abs(v), 6);
  }
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2.0 / n));
}

TEST(Random, BelowCoversItsRange) {
  Random random(1, 2);
  std::set<std::int64_t> seen;
  for (int i = 0; i < 200; ++i) seen.insert(random.below(7));
  EXPECT_EQ(seen, (std::set<std::int64_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(Order, IsAPermutationThatDependsOnSeedAndEpoch) {
  const BatchOrder order{.samples = 100, .batch = 8, .shuffle = true, .seed = 3};
  const std::vector<std::int64_t> first = order.epoch(0);
  std::vector<std::int64_t> sorted = first, all(100);
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(sorted, all);
  EXPECT_NE(first, all);
  EXPECT_EQ(first, order.epoch(0));
  EXPECT_NE(first, order.epoch(1));
  EXPECT_NE(first, (BatchOrder{.samples = 100, .batch = 8, .shuffle = true, .seed = 4}.epoch(0)));
  EXPECT_EQ(first, (BatchOrder{.samples = 100, .batch = 32, .shuffle = true, .seed = 3}.epoch(0)));
  EXPECT_EQ(order.batches(), 13);
  EXPECT_EQ((BatchOrder{.samples = 100, .batch = 8}.epoch(5)), all);
}

}  // namespace
}  // namespace tandem
