// Shares of a batch for unlike devices, against all that there are.
#include "trainer/slice_choice.h"

#include <numeric>
#include <random>

#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

double slowest(const std::vector<SliceCost>& costs, const std::vector<std::int64_t>& slices) {
  double most = 0;
  for (std::size_t i = 0; i < costs.size(); ++i)
    if (slices[i] > 0) most = std::max(most, costs[i].fixed + costs[i].each * static_cast<double>(slices[i]));
  return most;
}

bool fits(const std::vector<SliceCost>& costs, const std::vector<std::int64_t>& slices) {
  for (std::size_t i = 0; i < costs.size(); ++i)
    if (slices[i] < 0 || slices[i] > costs[i].most) return false;
  return true;
}

TEST(SliceChoice, IsTheBestOfAll) {
  std::mt19937 random(3);
  const auto draw = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
  int refused = 0;
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<SliceCost> costs;
    for (int i = 0; i < 3; ++i) costs.push_back({draw(1, 40) * 0.1, draw(1, 20) * 0.1, draw(0, 12)});
    const std::int64_t batch = draw(1, 12), room = std::accumulate(costs.begin(), costs.end(), std::int64_t{0},
                                                                   [](std::int64_t sum, const SliceCost& c) { return sum + c.most; });
    if (room < batch) {
      expect_error(ExitCode::device, concat("holds ", room, " samples"), [&] { shortest_slices(costs, batch); });
      expect_error(ExitCode::device, concat("holds ", room, " samples"), [&] { slices_by_memory(costs, batch); });
      ++refused;
      continue;
    }
    double best = 1e9;
    for (std::int64_t a = 0; a <= batch; ++a)
      for (std::int64_t b = 0; a + b <= batch; ++b)
        if (const std::vector<std::int64_t> s{a, b, batch - a - b}; fits(costs, s)) best = std::min(best, slowest(costs, s));
    for (const bool by_time : {true, false}) {
      const std::vector<std::int64_t> chosen = by_time ? shortest_slices(costs, batch) : slices_by_memory(costs, batch);
      EXPECT_TRUE(fits(costs, chosen));
      EXPECT_EQ(std::accumulate(chosen.begin(), chosen.end(), std::int64_t{0}), batch);
      if (by_time) EXPECT_NEAR(slowest(costs, chosen), best, 1e-9);
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(SliceChoice, ByMemoryIsInItsProportion) {
  const std::vector<SliceCost> costs{{1, 1, 300}, {1, 1, 100}, {1, 1, 200}};
  EXPECT_EQ(slices_by_memory(costs, 60), (std::vector<std::int64_t>{30, 10, 20}));
}

// A device that takes longer to begin than the others need for all gets nothing.
TEST(SliceChoice, GivesNothingToWhoOnlyDelays) {
  const std::vector<SliceCost> costs{{0.1, 0.1, 100}, {50, 0.1, 100}};
  EXPECT_EQ(shortest_slices(costs, 20), (std::vector<std::int64_t>{20, 0}));
}

}  // namespace
}  // namespace tandem
