// Why two neighbours stay two nodes, as passes that fuse tell it (PassOptions::not_fused).
#include <gtest/gtest.h>

#include "graph/operator.h"
#include "planner/rewrite/fusing.h"
#include "tests/planner/passed.h"

namespace tandem {
namespace {

struct Network {
  Graph graph;
  ValueId x = graph.add_input("x", {DType::float32, {6, 8}}), row = graph.add_input("row", {DType::float32, {1, 8}});
  ValueId node(const char* op, std::vector<ValueId> in, Attributes a = {}) {
    return graph[graph.add_node(internal_operator(op), concat(op, graph.nodes.size()), std::move(a), std::move(in), 1)].outputs[0];
  }
  ValueId product() {
    const TensorType type{DType::float32, {4, 8}};
    return node("InnerProduct", {x, graph.add_parameter("w", type, Tensor(type), true)});
  }
};

struct Row {
  const char *name, *pass;
  bool offered;
  std::vector<ValueId> (*outputs)(Network&);
  std::vector<std::string> told;  // "Exp, Neg: why"
};
const Row rows[] = {
    {"one_program", "fuse_elementwise", true, [](Network& n) { return std::vector{n.node("Neg", {n.node("Exp", {n.x})})}; }, {}},
    {"two_readers",
     "fuse_elementwise",
     true,
     [](Network& n) {
       const ValueId v = n.node("Exp", {n.x});
       return std::vector{n.node("Neg", {v}), n.node("Sqrt", {v})};
     },
     {"Exp, Neg: the result of the first has 2 readers", "Exp, Sqrt: the result of the first has 2 readers"}},
    {"an_output",
     "fuse_elementwise",
     true,
     [](Network& n) {
       const ValueId v = n.node("Exp", {n.x});
       return std::vector{v, n.node("Neg", {v})};
     },
     {"Exp, Neg: the result of the first has 2 readers"}},
    {"another_shape",
     "fuse_elementwise",
     true,
     [](Network& n) { return std::vector{n.node("Add", {n.x, n.node("Exp", {n.row})})}; },
     {"Exp, Add: their results differ in shape: float32[1,8] and float32[6,8]"}},
    {"a_long_chain",
     "fuse_elementwise",
     true,
     [](Network& n) {
       ValueId v = n.x;
       for (int i = 0; i < 25; ++i) v = n.node("Neg", {v});
       return std::vector{v};
     },
     {"Neg, Neg: an elementwise kernel has at most 24 operators and 8 operands"}},
    {"an_activation_that_is_not_offered",
     "fuse_activations",
     false,
     [](Network& n) { return std::vector{n.node("GeluErf", {n.product()})}; },
     {concat("InnerProduct, GeluErf: ", not_offered)}},
    {"two_activations",
     "fuse_activations",
     true,
     [](Network& n) {
       const ValueId v = n.product();
       return std::vector{n.node("GeluErf", {v}), n.node("GeluTanh", {v})};
     },
     {"InnerProduct, GeluTanh: the product has another activation already"}},
    {"a_slope_whose_operand_has_readers",
     "fuse_activations",
     true,
     [](Network& n) {
       const TensorType type{DType::float32, {4, 8}};
       const ValueId w = n.graph.add_parameter("w", type, Tensor(type), true), dy = n.graph.add_input("dy", {DType::float32, {6, 4}});
       const ValueId v = n.node("InnerProductBackwardData", {dy, w}, {{"input_shape", Ints{6, 8}}});
       return std::vector{n.node("GeluErfBackward", {v, n.x}), v};
     },
     {"InnerProductBackwardData, GeluErfBackward: the result of the first has other readers, too"}},
    {"a_bias_of_another_form",
     "fuse_layers",
     true,
     [](Network& n) { return std::vector{n.node("Add", {n.product(), n.graph.add_input("z", {DType::float32, {6, 4}})})}; },
     {"InnerProduct, Add: what is added is no parameter with one element a channel"}},
};

class NotFusedPairs : public testing::TestWithParam<Row> {};
TEST_P(NotFusedPairs, AreToldWithTheReason) {
  Network n;
  const std::vector<ValueId> outputs = GetParam().outputs(n);
  n.graph.outputs.assign(outputs.begin(), outputs.end());
  std::vector<std::string> told;
  PassInput in{.fuses = [](const KernelRequest&) { return GetParam().offered; }, .options = for_training(true)};
  in.options.passes.not_fused = [&](const NotFused& pair) {
    told.push_back(concat(pair.first.op->name, ", ", pair.second.op->name, ": ", pair.why));
  };
  passed(GetParam().pass, n.graph, in);
  EXPECT_EQ(told, GetParam().told);
}
INSTANTIATE_TEST_SUITE_P(Rows, NotFusedPairs, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem
