// Normalizations that the convolutions behind them apply themselves: which ones, and that training is the same.
#include "planner/rewrite/differentiate.h"
#include "planner/rewrite/fusing.h"
#include "planner/rewrite/simplify.h"
#include "tests/graph/notation.h"
#include "tests/planner/passed.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

using small_models::chains;

struct Network {
  Graph graph;
  ValueId x = graph.add_input("x", {DType::float32, {2, 8, 4, 4}});
  ValueId node(const char* op, std::vector<ValueId> in, Attributes a = {}, int outputs = 1) {
    return graph[graph.add_node(internal_operator(op), concat(op, graph.nodes.size()), std::move(a), std::move(in), outputs)].outputs[0];
  }
  ValueId parameter(const std::string& name, Shape shape) {
    return graph.add_parameter(name, {DType::float32, shape}, Tensor(TensorType{DType::float32, shape}), true);
  }
  ValueId conv(ValueId v, const char* weight, Attributes a = {}) {
    return node("Conv", {v, parameter(weight, {8, graph[v].type.shape[1] / a.integer("group", 1), 1, 1})}, a);
  }
  ValueId norm(ValueId v, const char* name, bool relu = true, ValueId addend = {}) {
    std::vector<ValueId> in{v, parameter(concat(name, "_scale"), {8}), parameter(concat(name, "_bias"), {8})};
    if (addend.present()) in.push_back(addend);
    return node("BatchNormalizationTraining", std::move(in), relu ? Attributes{{"activation", std::string("Relu")}} : Attributes{}, 4);
  }
};

struct Row {
  const char* name;
  ValueId (*output)(Network&);
  bool normalizes;
};
const Row rows[] = {
    {"chain", [](Network& n) { return n.norm(n.conv(n.norm(n.conv(n.x, "u"), "a"), "v"), "b"); }, true},
    {"two_readers",
     [](Network& n) {
       const ValueId y = n.norm(n.conv(n.x, "u"), "a");
       return n.node("Add", {n.norm(n.conv(y, "v"), "b"), n.norm(n.conv(y, "w"), "c")});
     },
     true},
    {"without_relu", [](Network& n) { return n.norm(n.conv(n.norm(n.conv(n.x, "u"), "a", false), "v"), "b"); }, false},
    {"with_an_addend", [](Network& n) { return n.norm(n.conv(n.norm(n.conv(n.x, "u"), "a", true, n.x), "v"), "b"); }, false},
    {"of_what_no_convolution_summed", [](Network& n) { return n.norm(n.conv(n.norm(n.x, "a"), "v"), "b"); }, false},
    {"into_one_that_does_not_sum", [](Network& n) { return n.conv(n.norm(n.conv(n.x, "u"), "a"), "v"); }, false},
    {"into_groups", [](Network& n) { return n.norm(n.conv(n.norm(n.conv(n.x, "u"), "a"), "v", {{"group", std::int64_t{2}}}), "b"); }, false},
    {"read_elsewhere",
     [](Network& n) {
       const ValueId y = n.norm(n.conv(n.x, "u"), "a");
       return n.node("Add", {n.norm(n.conv(y, "v"), "b"), y});
     },
     false},
};

class NormalizedInputs : public testing::TestWithParam<Row> {};

TEST_P(NormalizedInputs, OfConvolutions) {
  for (const bool wanted : {true, false}) {
    Network n;
    const ValueId y = GetParam().output(n);
    n.graph.outputs = {GraphBuilder(n.graph, "loss", {}).reduce_sum(y, {0, 1, 2, 3}, false)};
    // Convolutions that normalize sum, too.
    const Fuses sums = [](const KernelRequest& r) { return chains(r) && (r.op != "Conv" || r.outputs.size() == 3); };
    Graph graph = passed("sum_channels", n.graph, {.fuses = sums});
    const ValueId weights[] = {*graph.find("v")};
    graph.outputs.push_back(differentiate(graph, graph.outputs[0], weights)[0]);
    const Graph got = passed("normalize_in_convolutions", simplify(graph), {.fuses = wanted ? sums : Fuses()});
    verify(got);
    const std::string gradient = test::expression(got, got.outputs[1]);
    const bool normalizes = wanted && GetParam().normalizes;
    const std::string operands = "Conv:1(x, u), Conv:2(x, u), a_scale, a_bias",
                      factors = "BatchNormalizationFactors:3(" + operands + "), BatchNormalizationFactors:4(" + operands + ")";
    // Both directions read what the first convolution wrote.
    EXPECT_EQ(gradient.starts_with("ConvolutionBackwardWeights(Conv(x, u), "), normalizes) << gradient;
    EXPECT_EQ(gradient.ends_with(", " + factors + ")"), normalizes) << gradient;
    EXPECT_EQ(test::expression(got, got.outputs[0]).find("Conv(Conv(x, u), v, -, " + factors + ")") != std::string::npos, normalizes)
        << test::expression(got, got.outputs[0]);
    for (const Node& node : got.nodes) EXPECT_FALSE(node.op->name == "BatchNormalizationFactors" && !normalizes);
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, NormalizedInputs, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.name); });

TEST(NormalizedInputs, TrainingIsTheSame) {
  using namespace small_models;
  for (const std::vector<double>& devices : {std::vector<double>{1}, {2, 1}, {1, 0}}) {
    AskedCpu backend;
    const Trained wanted = train_on(backend, chain, options_for(6, devices), 4, 0.05);
    backend.gains = [](const KernelRequest& r) { return chains(r) && (r.op != "Conv" || r.outputs.size() == 3); };
    const Trained got = train_on(backend, chain, options_for(6, devices), 4, 0.05);
    int factors = 0, forward = 0, backward = 0;
    for (const Step& s : got.plan.program_of(0).steps) {
      factors += s.op() == "BatchNormalizationFactors";
      forward += s.op() == "Conv" && s.inputs.size() == 5;
      backward += s.op() == "ConvolutionBackwardWeights" && s.inputs.size() == 4;
    }
    EXPECT_EQ(std::tuple(factors, forward, backward), std::tuple(1, 1, 1));
    expect_close(got, wanted);
  }
}

}  // namespace
}  // namespace tandem
