// Shape arithmetic becomes constants, within bounds.
#include <gtest/gtest.h>

#include <functional>

#include "graph/operator.h"
#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

struct Row {
  std::string name;
  std::function<void(Model&)> build;  // from x [N,3,4] to integers "v"
  std::vector<std::int64_t> values;   // at batch 5
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

// clang-format off
const Row rows[] = {
    {"shape", [](Model& m) { m.add(node("Shape", {"x"}, {"v"})); }, {5, 3, 4}},
    {"shape_from", [](Model& m) { m.add(node("Shape", {"x"}, {"v"}, {{"start", std::int64_t{1}}})); }, {3, 4}},
    {"shape_between", [](Model& m) { m.add(node("Shape", {"x"}, {"v"}, {{"start", std::int64_t{-3}}, {"end", std::int64_t{-1}}})); }, {5, 3}},
    {"shape_of_nothing", [](Model& m) { m.add(node("Shape", {"x"}, {"v"}, {{"start", std::int64_t{2}}, {"end", std::int64_t{1}}})); }, {}},
    {"size", [](Model& m) { m.add(node("Size", {"x"}, {"v"})); }, {60}},
    {"gather", [](Model& m) { m.add(node("Shape", {"x"}, {"s"})).add(int_tensor("i", {1}, {-1})).add(node("Gather", {"s", "i"}, {"v"})); }, {4}},
    {"product", [](Model& m) { m.add(node("Shape", {"x"}, {"s"})).add(node("Mul", {"s", "s"}, {"v"})); }, {25, 9, 16}},
    {"concat", [](Model& m) { m.add(node("Shape", {"x"}, {"s"})).add(int_tensor("i", {1}, {7})).add(node("Concat", {"s", "i"}, {"v"}, {{"axis", std::int64_t{0}}})); }, {5, 3, 4, 7}},
    {"filled", [](Model& m) { m.add(int_tensor("s", {1}, {2})).add(node("ConstantOfShape", {"s"}, {"v"}, {{"value", int_tensor("", {1}, {9})}})); }, {9, 9}},
    {"triangle", [](Model& m) {
       m.add(float_tensor("t", {2, 2}, {1, 2, 3, 4})).add(int_tensor("k", {}, {0})).add(int_tensor("all", {1}, {-1}));
       m.add(node("Trilu", {"t", "k"}, {"l"}, {{"upper", std::int64_t{0}}})).add(node("Reshape", {"l", "all"}, {"f"})).add(node("Cast", {"f"}, {"v"}, {{"to", std::int64_t{7}}}));
     }, {1, 0, 3, 4}},
};
// clang-format on

class Fold : public testing::TestWithParam<Row> {};

TEST_P(Fold, GivesAConstant) {
  Model m;
  m.input("x", "N,3,4").output("y").output("v").add(node("Relu", {"x"}, {"y"}));
  GetParam().build(m);
  const Graph graph = m.graph(5);
  const Value& v = graph[graph.outputs.at(1)];
  ASSERT_EQ(v.kind, ValueKind::constant);
  EXPECT_EQ(v.name, "v");
  EXPECT_EQ(v.data->to_int64s(), GetParam().values);
  EXPECT_FALSE(v.depends_on_batch);
  EXPECT_EQ(ops_of(graph), Names{"Relu"});
}
INSTANTIATE_TEST_SUITE_P(Rows, Fold, testing::ValuesIn(rows), [](const auto& row) { return row.param.name; });

TEST(Fold, IsBoundedBeforeItAllocates) {
  Model m;
  m.input("x", "N,3")
      .output("y")
      .output("v")
      .add(node("Relu", {"x"}, {"y"}))
      .add(int_tensor("s", {1}, {1000}))
      .add(node("ConstantOfShape", {"s"}, {"v"}));
  const ModelFile model = m.parse();
  EXPECT_EQ(shape_of(model.graph({.batch = 1, .fold_limit = 4000}), "v"), (Shape{1000}));
  EXPECT_THROW(model.graph({.batch = 1, .fold_limit = 3999}), Error);
}

TEST(Fold, LeavesParametersAlone) {
  Model m;
  m.input("x", "N,4")
      .output("y")
      .add(filled_tensor("w", {2, 4}))
      .add(node("Transpose", {"w"}, {"t"}))
      .add(node("MatMul", {"x", "t"}, {"y"}));
  EXPECT_EQ(ops_of(m.graph()), (Names{"Transpose", "MatMul"}));
}

}  // namespace
}  // namespace tandem::test
