// Which sums and differences are straight-through estimators, and where their gradient goes.
#include "planner/rewrite/differentiate.h"
#include "planner/rewrite/simplify.h"
#include "tests/graph/notation.h"
#include "tests/planner/passed.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

struct Network : small_models::Builder {
  ValueId x = graph.add_input("x", {DType::float32, {2, 3, 8}}), z = graph.add_input("z", {DType::float32, {2, 3, 8}});
  ValueId rounded = node("Round", {x});
  ValueId code() {
    return node("Gather", {weight("book", {8, 8}, 1), node("ArgMax", {x}, {{"axis", std::int64_t{2}}, {"keepdims", std::int64_t{0}}})},
                {{"axis", std::int64_t{0}}});
  }
  ValueId past(ValueId y, ValueId of) { return node("Add", {of, node("Sub", {y, of})}); }
  ValueId together(ValueId y, ValueId of) { return node("Sub", {node("Add", {of, y}), of}); }
};

struct Row {
  const char* name;
  ValueId (*output)(Network&);
  std::string expected;  // empty: it stays as it is
};
const Row rows[] = {
    {"rounded", [](Network& n) { return n.past(n.rounded, n.x); }, "StraightThrough(x, Round(x))"},
    {"difference_first", [](Network& n) { return n.node("Add", {n.node("Sub", {n.rounded, n.x}), n.x}); }, "StraightThrough(x, Round(x))"},
    {"code_of_a_book", [](Network& n) { return n.past(n.code(), n.x); }, "StraightThrough(x, Gather(book, ArgMax(x)))"},
    {"sum_first", [](Network& n) { return n.together(n.rounded, n.x); }, "StraightThrough(x, Round(x))"},
    {"of_what_is_computed", [](Network& n) { const ValueId h = n.node("Tanh", {n.x}); return n.past(n.node("Sign", {h}), h); }, "StraightThrough(Tanh(x), Sign(Tanh(x)))"},
    {"not_where_a_gradient_flows", [](Network& n) { return n.past(n.node("Relu", {n.x}), n.x); }, ""},
    {"not_where_a_sum_has_a_gradient_of_its_own", [](Network& n) { return n.together(n.code(), n.x); }, ""},
    {"not_of_another", [](Network& n) { return n.past(n.node("Round", {n.z}), n.x); }, ""},
    {"not_of_what_is_given", [](Network& n) { return n.past(n.z, n.x); }, ""},
    {"not_turned_round", [](Network& n) { return n.node("Sub", {n.x, n.node("Add", {n.x, n.rounded})}); }, ""},
    {"not_the_other_difference", [](Network& n) { return n.node("Add", {n.x, n.node("Sub", {n.x, n.rounded})}); }, ""},
    {"not_broadcast", [](Network& n) { return n.past(n.node("Round", {n.node("ReduceMax", {n.x}, {{"axes", Ints{2}}, {"keepdims", std::int64_t{1}}})}), n.x); }, ""},
};

class StraightThrough : public testing::TestWithParam<Row> {};

TEST_P(StraightThrough, IsFound) {
  Network n;
  n.graph.outputs = {GetParam().output(n)};
  std::vector<std::string> warnings;
  Graph got = simplify(passed("match_straight_through", n.graph, {.warnings = &warnings}));
  verify(got);
  const bool stays = GetParam().expected.empty();
  const Graph same = simplify(n.graph);
  EXPECT_EQ(test::expression(got, got.outputs[0]), stays ? test::expression(same, same.outputs[0]) : GetParam().expected);
  EXPECT_EQ(warnings.size(), stays ? 0U : 1U);
  if (stays) return;
  const ValueId x = got.inputs[0], dx = differentiate(got, got.outputs[0], std::span(&x, 1))[0];
  EXPECT_TRUE(dx.present());
  EXPECT_EQ(GetParam().expected.find("Tanh") != std::string::npos, test::expression(got, dx).find("TanhBackward") != std::string::npos)
      << test::expression(got, dx);
  const Graph left = passed("drop_straight_through", got);
  EXPECT_EQ(test::expression(left, left.outputs[0]).find("StraightThrough"), std::string::npos);
}
INSTANTIATE_TEST_SUITE_P(Rows, StraightThrough, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.name); });

TEST(StopGradient, IsWhereNoGradientPasses) {
  Network n;
  const ValueId h = n.node("Tanh", {n.x});
  n.graph.outputs = {n.node("Mul", {n.node("StopGradient", {h}), h})};
  const ValueId x = n.graph.inputs[0], dx = differentiate(n.graph, n.graph.outputs[0], std::span(&x, 1))[0];
  EXPECT_EQ(test::expression(n.graph, dx), "TanhBackward(Mul(Expand(1), StopGradient(Tanh(x))), Tanh(x))");
  const Graph left = passed("drop_straight_through", n.graph);
  EXPECT_EQ(test::expression(left, left.outputs[0]), "Mul(Tanh(x), Tanh(x))");
}

}  // namespace
}  // namespace tandem
