// The choice of what a chain's blocks keep, against all choices.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/id_vector.h"
#include "planner/recompute/chain.h"

namespace tandem {
namespace {

using What = ChainAction::What;
using Actions = std::vector<ChainAction>;

// What a list of actions takes, counted action by action.
struct Replay {
  double seconds = 0;
  std::int64_t peak = 0;
};
Replay replay(const std::vector<ChainBlock>& blocks, const Actions& actions) {
  Replay r;
  std::int64_t held = 0;
  std::vector<int> advanced, ends;  // from which block, to which
  const auto skipped = [&](int from, int to) {
    std::int64_t bytes = 0;
    for (std::size_t b = at(from); b < blocks[at(to)].skips.size(); ++b) bytes += blocks[at(to)].skips[b];
    return bytes;
  };
  int next = 0;               // block that runs next
  const auto needs = [&](std::int64_t bytes) { r.peak = std::max(r.peak, held + bytes); };
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const ChainAction& a = actions[i];
    const ChainBlock& block = blocks[at(a.block)];
    const auto runs = [&](int b) {
      const auto last = std::find_if(actions.begin() + static_cast<std::ptrdiff_t>(i), actions.end(),
                                     [](const ChainAction& x) { return x.what == What::backward; });
      needs(a.again ? blocks[at(b)].running + blocks[at(last->block)].gradients : blocks[at(b)].forward);
    };
    const bool alone = i + 1 < actions.size() && actions[i + 1].what == What::backward;
    switch (a.what) {
      case What::keep:
        EXPECT_EQ(a.block, next);
        runs(a.block);
        held += block.ways[at(a.way)].bytes;
        if (a.again && !alone) r.seconds += block.ways[at(a.way)].anew;
        next = a.block + 1;
        break;
      case What::advance:
        advanced.push_back(next);
        for (; next < a.block; ++next) {
          runs(next);
          if (next == advanced.back()) held += blocks[at(next)].entering;
          if (a.again) r.seconds += blocks[at(next)].advance;
        }
        held += skipped(advanced.back(), next);
        ends.push_back(next);
        break;
      case What::backward:
        held -= block.ways[at(a.way)].bytes;
        needs(block.ways[at(a.way)].backward);
        r.seconds += block.ways[at(a.way)].again;
        break;
      case What::leave:
        next = advanced.back();
        held -= blocks[at(next)].entering + skipped(next, ends.back());
        advanced.pop_back();
        ends.pop_back();
        break;
    }
  }
  EXPECT_EQ(held, 0);
  return r;
}

// All lists of actions for blocks first..last.
std::vector<Actions> all_choices(const std::vector<ChainBlock>& blocks, int first, int last, bool again) {
  std::vector<Actions> lists;
  const int ways = static_cast<int>(blocks[at(first)].ways.size());
  const auto rests = first < last ? all_choices(blocks, first + 1, last, again) : std::vector<Actions>{{}};
  for (int w = first == last && again ? ways - 1 : 0; w < ways; ++w)
    for (const Actions& rest : rests) {
      Actions& list = lists.emplace_back(Actions{{What::keep, first, w, again}});
      list.insert(list.end(), rest.begin(), rest.end());
      list.push_back({What::backward, first, w, again});
    }
  for (int behind = first + 1; behind <= last; ++behind) {
    const auto heads = all_choices(blocks, first, behind - 1, true);
    for (const Actions& rest : all_choices(blocks, behind, last, again))
      for (const Actions& head : heads) {
        Actions& list = lists.emplace_back(Actions{{What::advance, behind, 0, again}});
        list.insert(list.end(), rest.begin(), rest.end());
        list.push_back({What::leave, behind});
        list.insert(list.end(), head.begin(), head.end());
      }
  }
  return lists;
}

std::vector<ChainBlock> random_chain(unsigned seed, int count) {
  std::mt19937 g(seed);
  const auto below = [&](int n) { return static_cast<int>(g() % static_cast<unsigned>(n)); };
  std::vector<ChainBlock> blocks;
  for (int b = 0; b < count; ++b) {
    ChainBlock block{.entering = b == 0 ? 0 : 1 + below(10),
                     .advance = 1.0 + below(20),
                     .forward = 5 + below(15),
                     .running = 4 + below(12),
                     .gradients = below(12),
                     .ways = {}};
    const std::int64_t all = block.entering + 10 + below(40), least = block.entering;
    block.ways = {{all, 0, block.advance, all + below(10)}, {least, block.advance + below(5), block.advance, all + below(10)}};
    if (b % 3 == 0)
      block.ways.insert(block.ways.begin() + 1, KeptWay{(all + least) / 2, block.advance / 4, block.advance, all + below(10)});
    if (b > 1 && below(2) == 0) {
      block.skips.resize(at(b) - 1);
      block.skips[at(below(b - 1))] = below(9);
    }
    blocks.push_back(std::move(block));
  }
  return blocks;
}

TEST(RecomputeChain, NoChoiceOfEightBlocksIsBetter) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    const std::vector<ChainBlock> blocks = random_chain(seed, seed == 1 ? 8 : 7);
    std::vector<Replay> all;
    for (const Actions& actions : all_choices(blocks, 0, static_cast<int>(blocks.size()) - 1, false))
      all.push_back(replay(blocks, actions));
    int possible = 0;
    for (std::int64_t bytes = 20; bytes <= 500; bytes += 12) {
      const BlockChain chain(blocks, bytes);  // a slot is a byte
      ASSERT_EQ(chain.slot(), 1);
      double best = INFINITY;
      for (const Replay& r : all)
        if (r.peak <= bytes) best = std::min(best, r.seconds);
      EXPECT_DOUBLE_EQ(chain.seconds(bytes), best) << "seed " << seed << ", " << bytes << " bytes";
      if (std::isinf(best)) continue;
      ++possible;
      const Replay chosen = replay(blocks, chain.actions(bytes));
      EXPECT_DOUBLE_EQ(chosen.seconds, best);
      EXPECT_LE(chosen.peak, bytes);
    }
    EXPECT_GT(possible, 20);
  }
}

// Bytes are rounded down to slots: what that says is never more than the truth.
TEST(RecomputeChain, FewSlotsGiveALowerBound) {
  const std::vector<ChainBlock> blocks = random_chain(9, 20);
  const BlockChain exact(blocks, 400, 400);
  for (const int slots : {7, 20, 60, 150}) {
    const BlockChain rough(blocks, 400, slots);
    for (const std::int64_t bytes : {120, 180, 250, 400}) EXPECT_LE(rough.seconds(bytes), exact.seconds(bytes)) << slots << ' ' << bytes;
  }
}

TEST(RecomputeChain, EnoughMemoryKeepsEverything) {
  const std::vector<ChainBlock> blocks = random_chain(4, 12);
  const BlockChain chain(blocks, 10000, 10000);
  EXPECT_EQ(chain.seconds(10000), 0);
  for (const ChainAction& a : chain.actions(10000)) EXPECT_FALSE(a.again);
  EXPECT_TRUE(std::isinf(chain.seconds(3)));
}

}  // namespace
}  // namespace tandem
