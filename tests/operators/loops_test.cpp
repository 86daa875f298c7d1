// Loops whose end is computed from data give what their turns say, and no numbers where more turns were wanted than are planned.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/importer/model_builder.h"
#include "tests/operators/run_graph.h"

namespace tandem::test {
namespace {

onnx::GraphProto body(const std::vector<onnx::NodeProto>& nodes, const Names& outputs) {
  onnx::GraphProto graph = branch(nodes, outputs);
  for (const char* name : {"i", "c", "v"}) graph.add_input()->set_name(name);
  return graph;
}

// x [2] doubled until its largest is 9 or more; or as often as its largest says.
Model doubled(bool counted) {
  Model m;
  m.input("x", "2").output("y").add(float_tensor("limit", {}, {9})).add(int_tensor("none", {}, {0}));
  m.add(node("ReduceMax", {"x"}, {"first"}, {{"keepdims", std::int64_t{0}}})).add(node("Less", {"first", "limit"}, {"begin"}));
  m.add(node("Cast", {"first"}, {"count"}, {{"to", std::int64_t{onnx::TensorProto::INT64}}}));
  if (counted)
    m.add(node("Loop", {"count", "", "x"}, {"y"}, {{"body", body({node("Identity", {"c"}, {"c2"}), node("Add", {"v", "v"}, {"v2"})}, {"c2", "v2"})}}));
  else
    m.add(node("Loop", {"", "begin", "x"}, {"y"}, {{"body", body({node("Add", {"v", "v"}, {"v2"}), node("ReduceMax", {"v2"}, {"top"}, {{"keepdims", std::int64_t{0}}}), node("Less", {"top", "limit"}, {"c2"})}, {"c2", "v2"})}}));
  return m;
}

std::vector<double> run(bool counted, std::int64_t turns, float x0, float x1) {
  GraphRun run(doubled(counted).parse().graph({.batch = 0, .training = false, .max_turns = turns}));
  return run.run({{"x", Tensor::of<float>(Shape{2}, std::vector<float>{x0, x1})}})[0].tensor.to_doubles();
}

TEST(Loops, EndWhereTheDataSays) {
  EXPECT_EQ(run(false, 6, 1, 0.5), (std::vector<double>{16, 8}));
  EXPECT_EQ(run(false, 6, 20, 0.5), (std::vector<double>{20, 0.5}));  // no turn at all
  EXPECT_EQ(run(false, 4, 1, 0.5), (std::vector<double>{16, 8}));     // just so many
  EXPECT_EQ(run(true, 6, 3, 0.5), (std::vector<double>{24, 4}));
  EXPECT_EQ(run(true, 6, 0, -1), (std::vector<double>{0, -1}));
  EXPECT_EQ(run(true, 3, 3, 0.5), (std::vector<double>{24, 4}));
}

TEST(Loops, ThatWouldGoOnGiveNoNumbers) {
  for (const bool counted : {false, true})
    for (const double v : run(counted, 2, 3 - static_cast<float>(!counted) * 2, 0.5)) EXPECT_TRUE(std::isnan(v)) << counted;
}

TEST(Loops, WithoutABoundAreRefused) {
  for (const bool counted : {false, true}) EXPECT_NE(doubled(counted).report().find("option max_turns says how many are planned at most"), std::string::npos);
}

}  // namespace
}  // namespace tandem::test
