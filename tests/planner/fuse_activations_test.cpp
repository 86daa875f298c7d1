// Which activations, and slopes of activations, become part of the product before them.
#include "tests/graph/notation.h"
#include "tests/planner/passed.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

// Tokens x [2,3,8] through a product of rows, and what flows back to one.
struct Network {
  Graph graph;
  ValueId rows = graph.add_input("rows", {DType::float32, {6, 8}}), dy = graph.add_input("dy", {DType::float32, {6, 4}}),
          h = graph.add_input("h", {DType::float32, {6, 8}});
  ValueId node(const char* op, std::vector<ValueId> in, Attributes a = {}) {
    return graph[graph.add_node(internal_operator(op), concat(op, graph.nodes.size()), std::move(a), std::move(in), 1)].outputs[0];
  }
  ValueId weight(Shape shape) { return graph.add_parameter("w", {DType::float32, shape}, Tensor(TensorType{DType::float32, shape}), true); }
  ValueId product() { return node("InnerProduct", {rows, weight({4, 8})}); }
  ValueId gradient() { return node("InnerProductBackwardData", {dy, weight({4, 8})}, {{"input_shape", Ints{6, 8}}}); }
  ValueId tokens(ValueId v) { return node("Reshape", {v}, {{"shape", Ints{2, 3, graph[v].type.shape[1]}}}); }
};

struct Row {
  const char* name;
  bool wanted;
  std::vector<ValueId> (*outputs)(Network&);
  std::vector<std::string> expected;
};
const Row rows[] = {
    {"behind_a_product",
     true,
     [](Network& n) { return std::vector{n.node("GeluErf", {n.product()})}; },
     {"InnerProduct{GeluErf}(rows, w)"}},
    {"not_offered", false, [](Network& n) { return std::vector{n.node("GeluErf", {n.product()})}; }, {"GeluErf(InnerProduct(rows, w))"}},
    {"whose_operand_is_wanted",
     true,
     [](Network& n) {
       const ValueId v = n.product();
       return std::vector{n.node("GeluTanh", {v}), n.node("Exp", {v})};
     },
     {"InnerProduct{GeluTanh}(rows, w)", "Exp(InnerProduct{GeluTanh}:1(rows, w))"}},
    {"of_tokens",
     true,
     [](Network& n) {
       const ValueId v = n.tokens(n.product());
       return std::vector{n.node("GeluErf", {v}), v};
     },
     {"Reshape(InnerProduct{GeluErf}(rows, w))", "Reshape(InnerProduct{GeluErf}:1(rows, w))"}},
    {"in_a_program",
     true,
     [](Network& n) { return std::vector{n.node("Exp", {n.node("GeluErf", {n.product()})})}; },
     {"Exp(GeluErf(InnerProduct(rows, w)))"}},
    {"two_of_one_product",
     true,
     [](Network& n) {
       const ValueId v = n.product();
       return std::vector{n.node("GeluErf", {v}), n.node("GeluTanh", {v})};
     },
     {"InnerProduct{GeluErf}(rows, w)", "GeluTanh(InnerProduct{GeluErf}:1(rows, w))"}},
    {"of_8_bits",
     true,
     [](Network& n) {
       return std::vector{n.node("GeluErf", {n.node("InnerProduct", {n.rows, n.weight({4, 8})}, {{"fp8", std::int64_t{1}}})})};
     },
     {"GeluErf(InnerProduct(rows, w))"}},
    {"a_slope_of_8_bits",
     true,
     [](Network& n) {
       return std::vector{n.node(
           "ReluBackward",
           {n.node("InnerProductBackwardData", {n.dy, n.weight({4, 8})}, {{"input_shape", Ints{6, 8}}, {"fp8", std::int64_t{1}}}), n.h})};
     },
     {"ReluBackward(InnerProductBackwardData(dy, w), h)"}},
    {"of_something_else", true, [](Network& n) { return std::vector{n.node("GeluErf", {n.rows})}; }, {"GeluErf(rows)"}},
    {"a_slope",
     true,
     [](Network& n) {
       return std::vector{n.node("GeluErfBackward", {n.gradient(), n.h})};
     },
     {"InnerProductBackwardData{GeluErf}(dy, w, h)"}},
    {"the_slope_of_relu",
     true,
     [](Network& n) {
       return std::vector{n.node("ReluBackward", {n.gradient(), n.h})};
     },
     {"InnerProductBackwardData{Relu}(dy, w, h)"}},
    {"a_slope_of_tokens",
     true,
     [](Network& n) {
       return std::vector{n.node("GeluTanhBackward", {n.tokens(n.gradient()), n.tokens(n.h)})};
     },
     {"Reshape(InnerProductBackwardData{GeluTanh}(dy, w, h))"}},
    {"a_slope_that_is_not_offered",
     false,
     [](Network& n) {
       return std::vector{n.node("ReluBackward", {n.gradient(), n.h})};
     },
     {"ReluBackward(InnerProductBackwardData(dy, w), h)"}},
    {"a_slope_of_what_is_read_elsewhere",
     true,
     [](Network& n) {
       const ValueId v = n.gradient();
       return std::vector{n.node("ReluBackward", {v, n.h}), v};
     },
     {"ReluBackward(InnerProductBackwardData(dy, w), h)", "InnerProductBackwardData(dy, w)"}},
    {"a_slope_by_something_else",
     true,
     [](Network& n) {
       return std::vector{n.node("GeluErfBackward", {n.h, n.gradient()})};
     },
     {"GeluErfBackward(h, InnerProductBackwardData(dy, w))"}},
};

// With a product's activation behind its name.
std::string expression(const Graph& graph, ValueId value) {
  std::string text = test::expression(graph, value);
  for (const Node& node : graph.nodes)
    if (node.attributes.has("activation"))
      if (const std::size_t at = text.find(node.op->name); at != std::string::npos)
        text.insert(at + node.op->name.size(), concat('{', node.attributes.text("activation", ""), '}'));
  return text;
}

class FusedActivations : public testing::TestWithParam<Row> {};

TEST_P(FusedActivations, AreThoseBehindProducts) {
  Network n;
  for (const ValueId v : GetParam().outputs(n)) n.graph.outputs.emplace_back(v);
  const Graph got = passed("fuse_activations", n.graph,
                           {.fuses = [](const KernelRequest& r) { return GetParam().wanted && r.attributes->has("activation"); }});
  verify(got);
  std::vector<std::string> expressions;
  for (const GraphOutput& out : got.outputs) {
    expressions.push_back(expression(got, out));
    EXPECT_EQ(got[out].type, n.graph[n.graph.outputs[expressions.size() - 1]].type);
  }
  EXPECT_EQ(expressions, GetParam().expected);
}
INSTANTIATE_TEST_SUITE_P(Rows, FusedActivations, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem
