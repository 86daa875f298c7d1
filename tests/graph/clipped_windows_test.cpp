#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <set>

#include "tests/graph/notation.h"

namespace tandem {
namespace {

using test::OneNode;

// Whatever is left out of a window, those elements of x that each one meets are the same.
TEST(ShapeRules, ClippedWindowsMeetTheSameElements) {
  std::minstd_rand random(1);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
  const auto met = [](const Attributes& a, std::int64_t size, std::int64_t windows) {
    std::vector<std::set<std::int64_t>> all(static_cast<std::size_t>(windows));
    for (std::int64_t i = 0; i < windows; ++i)
      for (std::int64_t tap = 0; tap < a.ints("kernel_shape")[0]; ++tap)
        if (const std::int64_t at = i * a.ints("strides")[0] - a.ints("pads")[0] + tap * a.ints("dilations")[0]; at >= 0 && at < size)
          all[static_cast<std::size_t>(i)].insert(at);
    return all;
  };
  int clipped = 0;
  for (int n = 0; n < 3000; ++n) {
    const std::int64_t size = 1 + below(9);
    const Attributes given{{"kernel_shape", Ints{1 + below(20)}},
                           {"strides", Ints{1 + below(4)}},
                           {"dilations", Ints{1 + below(3)}},
                           {"pads", Ints{below(30), below(30)}},
                           {"ceil_mode", below(2)}};
    std::optional<OneNode> one;
    try {
      one.emplace("MaxPool", std::vector<std::string>{concat("f[1,1,", size, "]")}, given);
    } catch (const Error&) {
      continue;  // larger than what it lies on
    }
    const Attributes& left = one->graph[one->node].attributes;
    const std::int64_t windows = one->graph[one->graph.outputs[0]].type.shape[2];
    if (left.ints("kernel_shape") == given.ints("kernel_shape")) continue;
    ++clipped;
    EXPECT_EQ(met(left, size, windows), met(given, size, windows)) << to_string(given) << " on " << size << " became " << to_string(left);
    EXPECT_EQ(OneNode("MaxPool", {concat("f[1,1,", size, "]")}, left).graph[ValueId(one->graph.outputs[0])].type.shape[2], windows)
        << to_string(left);
  }
  EXPECT_GT(clipped, 500);
}

}  // namespace
}  // namespace tandem
