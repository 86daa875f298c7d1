#include <gtest/gtest.h>

#include "graph/operator.h"
#include "planner/rewrite/simplify.h"
#include "tests/planner/passed.h"

namespace tandem {
namespace {

const Ints two{2, 2}, none{0, 0, 0, 0}, ones{1, 1};

struct Row {
  const char* name;
  const char* first;   // before Relu
  bool relu_is_output;  // of the graph, so that it has another use
  std::vector<std::string> ops;
};

class PoolBeforeRelu : public testing::TestWithParam<Row> {};

TEST_P(PoolBeforeRelu, Order) {
  Graph g;
  ValueId x = g.add_input("x", {DType::float32, {2, 3, 4, 4}});
  const auto node = [&](const char* op, std::vector<ValueId> in, Attributes a = {}) {
    return g[g.add_node(internal_operator(op), op, std::move(a), std::move(in), 1)].outputs[0];
  };
  std::vector<ValueId> in{x};
  for (const char* name : {"scale", "bias", "mean", "variance"})
    if (std::string(GetParam().first) == "BatchNormalization")
      in.push_back(g.add_parameter(name, {DType::float32, {3}}, Tensor(TensorType{DType::float32, {3}}), true));
  const ValueId relu = node("Relu", {node(GetParam().first, in)});
  const ValueId pooled = node("MaxPool", {relu}, {{"kernel_shape", two}, {"strides", two}, {"pads", none}, {"dilations", ones}});
  g[pooled].name = "y";
  g.outputs = {node("Neg", {pooled})};
  if (GetParam().relu_is_output) g.outputs.push_back(relu);

  const Graph got = simplify(passed("pool_before_relu", g));
  std::vector<std::string> ops;
  for (const Node& n : got.nodes) ops.emplace_back(n.op->name);
  EXPECT_EQ(ops, GetParam().ops);
  EXPECT_EQ(got[got.outputs[0]].type, g[g.outputs[0]].type);
  EXPECT_EQ(got[got.nodes.back().inputs[0]].name, "y");
}

INSTANTIATE_TEST_SUITE_P(Rows, PoolBeforeRelu,
                         testing::Values(Row{"moved", "Neg", false, {"Neg", "MaxPool", "Relu", "Neg"}},
                                         Row{"two uses", "Neg", true, {"Neg", "Relu", "MaxPool", "Neg"}},
                                         Row{"normalised", "BatchNormalization", false, {"BatchNormalization", "Relu", "MaxPool", "Neg"}}),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

}  // namespace
}  // namespace tandem
