#include "planner/memory/place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "base/error.h"

namespace tandem {
namespace {

constexpr Interval live(int first, int last, std::int64_t bytes) {
  return {bytes, first, last};
}

struct Row {
  std::string name;
  std::vector<Interval> intervals;
  std::int64_t bytes;
  std::vector<std::int64_t> offsets;
  std::string order = "";
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

class Place : public testing::TestWithParam<Row> {};
TEST_P(Place, AsTheRowSays) {
  const Packing p = place(GetParam().intervals, GetParam().order);
  EXPECT_EQ(p.bytes, GetParam().bytes);
  EXPECT_EQ(p.offsets, GetParam().offsets);
}
INSTANTIATE_TEST_SUITE_P(
    Rows, Place,
    testing::Values(Row{"nothing", {}, 0, {}}, Row{"disjoint_lifetimes_share_bytes", {live(0, 1, 100), live(2, 3, 128)}, 128, {0, 0}},
                    Row{"a_shared_step_is_an_overlap", {live(0, 2, 128), live(2, 3, 64)}, 192, {0, 128}},
                    Row{"offsets_are_multiples_of_64", {live(0, 1, 1), live(0, 1, 65)}, 192, {128, 0}},
                    Row{"no_bytes_take_no_place", {live(0, 9, 64), live(0, 9, 0)}, 64, {0, 0}},
                    Row{"the_smallest_gap_that_fits",
                        {live(0, 9, 640), live(0, 1, 512), live(0, 9, 320), live(0, 1, 256), live(0, 9, 192), live(3, 4, 128)},
                        1920,
                        {0, 640, 1152, 1472, 1728, 1472},
                        "size"},
                    Row{"nested_lives_stack", {live(0, 5, 64), live(1, 4, 128), live(2, 3, 256)}, 448, {0, 64, 192}}),
    [](const auto& info) { return info.param.name; });

void expect_sound(const std::vector<Interval>& v, const Packing& p) {
  ASSERT_EQ(p.offsets.size(), v.size());
  std::int64_t bound = 0;
  for (std::size_t i = 0; i < v.size(); ++i) {
    const auto rounded = [](std::int64_t b) { return (b + 63) / 64 * 64; };
    EXPECT_EQ(p.offsets[i] % 64, 0);
    EXPECT_GE(p.offsets[i], 0);
    EXPECT_LE(p.offsets[i] + rounded(v[i].bytes), p.bytes);
    std::int64_t at_begin = 0;
    for (std::size_t j = 0; j < v.size(); ++j) {
      if (v[j].first <= v[i].first && v[i].first <= v[j].last) at_begin += rounded(v[j].bytes);
      const bool together = v[i].first <= v[j].last && v[j].first <= v[i].last && v[i].bytes > 0 && v[j].bytes > 0;
      if (i < j && together) {
        EXPECT_TRUE(p.offsets[i] + v[i].bytes <= p.offsets[j] || p.offsets[j] + v[j].bytes <= p.offsets[i]) << i << " and " << j;
      }
    }
    bound = std::max(bound, at_begin);
  }
  EXPECT_EQ(p.lower_bound, bound);
  EXPECT_GE(p.bytes, bound);
}

std::vector<Interval> random_intervals(std::mt19937& random, std::size_t n, int steps, int most_blocks) {
  std::vector<Interval> v;
  for (std::size_t i = 0; i < n; ++i) {
    const int first = static_cast<int>(random() % static_cast<unsigned>(steps));
    const int last = first + static_cast<int>(random() % static_cast<unsigned>(steps - first));
    v.push_back({static_cast<std::int64_t>(random() % static_cast<unsigned>(64 * most_blocks + 1)), first, last});
  }
  return v;
}

TEST(PlaceAtRandom, NeverOverlapsAndNeverBeatsTheLowerBound) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const std::vector<Interval> v = random_intervals(random, 1 + random() % 60, 1 + static_cast<int>(random() % 40), 20);
    for (const char* order : {"", "size", "lifetime", "size*lifetime"}) expect_sound(v, place(v, order));
  }
}

// Fewest bytes: some optimum places the intervals in some order, each as low as it goes, so all orders are tried.
std::int64_t fewest_bytes(const std::vector<Interval>& v) {
  std::vector<std::size_t> order(v.size());
  for (std::size_t i = 0; i < v.size(); ++i) order[i] = i;
  std::int64_t best = INT64_MAX;
  do {
    std::vector<std::int64_t> at(v.size(), 0);
    std::int64_t bytes = 0;
    for (std::size_t k = 0; k < order.size(); ++k) {
      const Interval& a = v[order[k]];
      std::int64_t offset = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t j = 0; j < k; ++j) {
          const Interval& b = v[order[j]];
          if (a.first > b.last || b.first > a.last || offset + a.bytes <= at[order[j]] || at[order[j]] + b.bytes <= offset) continue;
          offset = at[order[j]] + b.bytes;
          moved = true;
        }
      }
      at[order[k]] = offset;
      bytes = std::max(bytes, offset + a.bytes);
    }
    best = std::min(best, bytes);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

TEST(PlaceAtRandom, IsNearTheOptimumOfTinyCases) {
  std::mt19937 random(2);
  int exact = 0;
  constexpr int rounds = 150;
  for (int round = 0; round < rounds; ++round) {
    std::vector<Interval> v = random_intervals(random, 6, 8, 6);
    for (Interval& i : v) i.bytes = (i.bytes + 63) / 64 * 64;
    const std::int64_t best = fewest_bytes(v), got = place(v).bytes;
    EXPECT_GE(got, best);
    EXPECT_LE(got, best + best / 3) << "round " << round;
    exact += got == best;
  }
  EXPECT_GE(exact, rounds * 9 / 10);
}

TEST(Place, StandsAtTheLowerBoundForALongTrainingChain) {
  std::vector<Interval> v;  // activations kept for the backward pass, and each one's gradient
  constexpr int n = 20000;
  std::mt19937 random(3);
  for (int i = 0; i < n; ++i) {
    const std::int64_t bytes = 64 * (1 + static_cast<std::int64_t>(random() % 1000));
    v.push_back(live(i, 2 * n - i, bytes));
    v.push_back(live(2 * n - i, 2 * n - i + 1, bytes));
  }
  const Packing p = place(v);
  EXPECT_LE(p.bytes, p.lower_bound + p.lower_bound / 100);
}

TEST(Place, RefusesAnUnknownOrder) {
  EXPECT_THROW(place({}, "alphabet"), Error);
}

}  // namespace
}  // namespace tandem
