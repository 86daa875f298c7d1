// BatchNormalization written out as arithmetic is one node again.
#include <gtest/gtest.h>

#include <functional>

#include "graph/operator.h"
#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

using List = std::vector<std::int64_t>;

// Parameters m.running_mean, m.running_var, scale, bias of 3 channels, each also as a view "…_v" [3,1,1].
Model start() {
  Model m;
  m.input("x", "N,3,4,4")
      .output("y")
      .add(int_tensor("axes", {2}, {1, 2}))
      .add(float_tensor("eps", {}, {0.25F}))
      .add(float_tensor("one", {}, {1}));
  for (const char* n : {"m.running_mean", "m.running_var", "scale", "bias"}) m.add(filled_tensor(n, {3}));
  const auto view = [&](const char* from, const char* to) { m.add(node("Unsqueeze", {from, "axes"}, {to})); };
  view("m.running_mean", "mean_v");
  view("scale", "scale_v");
  view("bias", "bias_v");
  m.add(node("Add", {"m.running_var", "eps"}, {"sum"})).add(node("Sqrt", {"sum"}, {"root"})).add(node("Reciprocal", {"root"}, {"r"}));
  view("root", "root_v");
  view("r", "r_v");
  m.add(node("Sub", {"x", "mean_v"}, {"centred"}));
  return m;
}

struct Row {
  std::string name;
  std::function<void(Model&)> build;
  bool recognised;
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

// clang-format off
const Row rows[] = {
    {"in_order", [](Model& m) { m.add(node("Mul", {"centred", "r_v"}, {"n"})).add(node("Mul", {"n", "scale_v"}, {"s"})).add(node("Add", {"s", "bias_v"}, {"y"})); }, true},
    {"other_order", [](Model& m) { m.add(node("Mul", {"scale_v", "centred"}, {"n"})).add(node("Mul", {"r_v", "n"}, {"s"})).add(node("Add", {"bias_v", "s"}, {"y"})); }, true},
    {"divided", [](Model& m) { m.add(node("Div", {"centred", "root_v"}, {"n"})).add(node("Mul", {"n", "scale_v"}, {"s"})).add(node("Add", {"s", "bias_v"}, {"y"})); }, true},
    {"scale_folded_first", [](Model& m) { m.add(node("Mul", {"scale_v", "r_v"}, {"k"})).add(node("Mul", {"centred", "k"}, {"s"})).add(node("Add", {"s", "bias_v"}, {"y"})); }, true},
    {"scale_divided_first", [](Model& m) { m.add(node("Div", {"scale_v", "root_v"}, {"k"})).add(node("Mul", {"centred", "k"}, {"s"})).add(node("Add", {"s", "bias_v"}, {"y"})); }, true},
    {"times_one_and_cast", [](Model& m) { m.add(node("Mul", {"bias_v", "one"}, {"b1"})).add(node("Cast", {"r_v"}, {"r1"}, {{"to", std::int64_t{1}}})).add(node("Mul", {"centred", "r1"}, {"n"})).add(node("Mul", {"n", "scale_v"}, {"s"})).add(node("Add", {"s", "b1"}, {"y"})); }, true},
    {"no_scale", [](Model& m) { m.add(node("Mul", {"centred", "r_v"}, {"n"})).add(node("Add", {"n", "bias_v"}, {"y"})); }, false},
    {"no_variance", [](Model& m) { m.add(node("Mul", {"centred", "scale_v"}, {"n"})).add(node("Add", {"n", "bias_v"}, {"y"})); }, false},
    {"root_instead_of_its_inverse", [](Model& m) { m.add(node("Mul", {"centred", "root_v"}, {"n"})).add(node("Mul", {"n", "scale_v"}, {"s"})).add(node("Add", {"s", "bias_v"}, {"y"})); }, false},
    {"scale_squared", [](Model& m) { m.add(node("Mul", {"centred", "r_v"}, {"n"})).add(node("Mul", {"n", "scale_v"}, {"s"})).add(node("Mul", {"s", "scale_v"}, {"t"})).add(node("Add", {"t", "bias_v"}, {"y"})); }, false},
    {"along_another_axis", [](Model& m) { m.add(int_tensor("t", {4}, {1, 1, 1, 3})).add(filled_tensor("w", {3})).add(node("Reshape", {"w", "t"}, {"b4"})).add(node("Slice", {"centred", "s0", "s3", "s3"}, {"c3"})).add(int_tensor("s0", {1}, {0})).add(int_tensor("s3", {1}, {3})).add(node("Mul", {"c3", "r_v"}, {"n"})).add(node("Mul", {"n", "scale_v"}, {"s"})).add(node("Add", {"s", "b4"}, {"y"})); }, false},
};
// clang-format on

class WrittenOut : public testing::TestWithParam<Row> {};

TEST_P(WrittenOut, IsRecognised) {
  Model m = start();
  GetParam().build(m);
  const Graph graph = m.graph(2);
  if (!GetParam().recognised) {
    for (const Node& n : graph.nodes) EXPECT_NE(n.op->name, "BatchNormalization");
    return;
  }
  ASSERT_EQ(ops_of(graph), Names{"BatchNormalization"});
  const Node& n = graph.nodes[0];
  EXPECT_EQ(n.attributes.real("epsilon"), 0.25F);
  Names inputs;
  for (const ValueId in : n.inputs) inputs.push_back(graph[in].name);
  EXPECT_EQ(inputs, (Names{"x", "scale", "bias", "m.running_mean", "m.running_var"}));
  EXPECT_EQ(graph[n.outputs[0]].name, "y");
  EXPECT_NE(std::find(n.origin.begin(), n.origin.end(), "node_centred"), n.origin.end());
  EXPECT_TRUE(graph[n.inputs[1]].trainable);
  EXPECT_FALSE(graph[n.inputs[3]].trainable);
}
INSTANTIATE_TEST_SUITE_P(Rows, WrittenOut, testing::ValuesIn(rows), [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace tandem::test
