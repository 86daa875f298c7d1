// Where a model is cut into a pipeline's parts: against all cuts, and what pieces a graph has.
#include "planner/pipeline/cuts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>

#include "planner/pipeline/pieces.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

using namespace small_models;

constexpr double infinite = std::numeric_limits<double>::infinity();

struct Worst {
  double time = 0, fill = 0;  // of any part
};
Worst worst_of(const std::vector<Piece>& pieces, const std::vector<PartRoom>& parts, const std::vector<int>& begins) {
  Worst worst;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const std::size_t end = p + 1 < parts.size() ? static_cast<std::size_t>(begins[p + 1]) : pieces.size();
    double time = 0, bytes = 0;
    for (auto i = static_cast<std::size_t>(begins[p]); i < end; ++i) {
      time += pieces[i].time / parts[p].speed;
      bytes += pieces[i].parameters + parts[p].held * pieces[i].activations;
    }
    worst.time = std::max(worst.time, time + (p + 1 < parts.size() ? pieces[end - 1].sends : 0));
    if (parts[p].memory > 0) worst.fill = std::max(worst.fill, bytes / parts[p].memory);
  }
  return worst;
}
// The least time of cuts that fit; infinite: none does. The least fill of all.
Worst best_of_all(const std::vector<Piece>& pieces, const std::vector<PartRoom>& parts) {
  Worst best{infinite, infinite};
  std::vector<int> begins(parts.size());
  const std::function<void(std::size_t)> try_all = [&](std::size_t part) {
    if (part == parts.size()) {
      const Worst worst = worst_of(pieces, parts, begins);
      if (worst.fill <= 1) best.time = std::min(best.time, worst.time);
      best.fill = std::min(best.fill, worst.fill);
      return;
    }
    for (int b = begins[part - 1] + 1; b < static_cast<int>(pieces.size()); ++b) {
      begins[part] = b;
      try_all(part + 1);
    }
  };
  try_all(1);
  return best;
}

TEST(Cuts, AreTheBestOfAll) {
  std::mt19937 random(7);
  int fitting = 0, not_fitting = 0, held_back = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const auto number = [&](int least, int most) { return static_cast<double>(std::uniform_int_distribution<>(least, most)(random)); };
    std::vector<Piece> pieces;
    for (int i = 0; i < 8; ++i) pieces.push_back({number(0, 20), number(0, 3), number(0, 4), number(0, 10)});
    std::vector<PartRoom> parts, any;
    const int count = 1 + trial % 4;
    for (int p = 0; p < count; ++p) parts.push_back({number(1, 3), number(15, 60), count - p});
    for (const PartRoom& part : parts) any.push_back({part.speed, 0, part.held});
    const Worst best = best_of_all(pieces, parts), got = worst_of(pieces, parts, best_cuts(pieces, parts));
    if (best.time < infinite) {
      EXPECT_LE(got.fill, 1);
      EXPECT_NEAR(got.time, best.time, 1e-9) << "trial " << trial;
      ++fitting;
      held_back += best.time > best_of_all(pieces, any).time + 1e-9;
    } else {
      EXPECT_NEAR(got.fill, best.fill, 1e-9) << "trial " << trial;
      ++not_fitting;
    }
  }
  EXPECT_GT(fitting, 500);
  EXPECT_GT(not_fitting, 500);
  EXPECT_GT(held_back, 100) << "memory decides";
}

TEST(Cuts, LeaveNoLayerOut) {
  for (const int layers : {7, 13, 31})
    for (const int stages : {2, 3, 4, 5}) {
      const std::vector<Piece> pieces(static_cast<std::size_t>(layers), Piece{.time = 1});
      const std::vector<PartRoom> parts(static_cast<std::size_t>(stages));
      const std::vector<int> begins = best_cuts(pieces, parts);
      ASSERT_EQ(begins.size(), parts.size());
      EXPECT_EQ(begins[0], 0);
      EXPECT_TRUE(std::ranges::is_sorted(begins) && std::ranges::adjacent_find(begins) == begins.end());
      EXPECT_EQ(worst_of(pieces, parts, begins).time, (layers + stages - 1) / stages) << layers << " in " << stages;
    }
}

TEST(Cuts, MorePartsThanPiecesAreRefused) {
  const std::vector<Piece> pieces(3, Piece{.time = 1});
  try {
    best_cuts(pieces, std::vector<PartRoom>(4));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_STREQ(e.what(), "option parallel: 4 parts of a pipeline, and the model can be cut into 3 at most");
  }
}

TEST(Pieces, AreNodesWithWhatTheyTake) {
  const Graph g = mlp(8);  // Gemm 20 -> 32, Relu, Gemm 32 -> 5
  const ModelPieces m = pieces_of(g, {.activations = 1, .parameters = 3});
  EXPECT_EQ(m.of_node, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(m.pieces[0].parameters, 3 * 4 * (32 * 20 + 32));
  EXPECT_EQ(m.pieces[0].activations, 4 * 8 * 32);
  EXPECT_EQ(m.pieces[1].sends, 2 * 10 * 4 * 8 * 32) << "what Relu gives, and its gradient";
  // Forward, and the gradient of a weight; behind it also that of what the weight is multiplied by.
  const double first = 10 * 4 * (8 * 20 + 32 * 20 + 32 + 8 * 32), last = 10 * 4 * (8 * 32 + 32 * 5 + 5 + 8 * 5);
  EXPECT_EQ(m.pieces[0].time, 2 * first);
  EXPECT_EQ(m.pieces[2].time, 3 * last + 3 * 10 * 4 * 8 * 5) << "with the loss";
}

// What is computed of weights alone is where it is first read; nodes of one ONNX node are not cut apart.
TEST(Pieces, StandWithTheirReaders) {
  Builder b;
  const ValueId x = b.graph.add_input("x", {DType::float32, {4, 8}});
  const ValueId w = b.node("Transpose", {b.weight("w", {5, 8}, 1)}, {{"perm", Ints{1, 0}}});
  const ValueId y = b.node("Relu", {x}), z = b.node("Sigmoid", {y});
  const NodeId joined = b.graph.add_node(internal_operator("Tanh"), "again", {}, {z}, 1, {b.graph.nodes[1].origin[0]});
  b.graph.outputs = {b.node("MatMul", {b.graph[joined].outputs[0], w})};
  EXPECT_EQ(pieces_of(b.graph, {}).of_node, (std::vector<int>{1, 0, 0, 0, 1}));
}

TEST(Pieces, OfALongModelAreJoined) {
  Builder b;
  ValueId x = b.graph.add_input("x", {DType::float32, {4, 8}});
  for (int i = 0; i < 1500; ++i) {
    const ValueId wide = b.node("Concat", {x, x, x}, {{"axis", std::int64_t{1}}});
    x = b.node("ReduceSum", {b.node("Reshape", {wide}, {{"shape", Ints{4, 3, 8}}})}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}});
  }
  b.graph.outputs = {x};
  const ModelPieces m = pieces_of(b.graph, {});
  EXPECT_LE(m.pieces.size(), 2001U);
  EXPECT_GE(m.pieces.size(), 1400U);
  EXPECT_TRUE(std::ranges::is_sorted(m.of_node));
  EXPECT_EQ(m.of_node.back() + 1, static_cast<int>(m.pieces.size()));
  const auto narrow = std::ranges::count_if(m.pieces, [](const Piece& p) { return p.sends <= 10 * 4 * 4 * 8; });
  EXPECT_GE(narrow, 1400) << "cuts are where little is sent";
}

}  // namespace
}  // namespace tandem
