// Convolutions that sum what the normalization behind them takes its statistics from: which ones do, and that training is
// the same.
#include "planner/rewrite/fusing.h"
#include "tests/graph/notation.h"
#include "tests/planner/passed.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

struct Network {
  Graph graph;
  ValueId x = graph.add_input("x", {DType::float32, {2, 8, 4, 4}}), image = graph.add_input("image", {DType::float32, {2, 3, 4, 4}});
  ValueId node(const char* op, std::vector<ValueId> in, Attributes a = {}, int outputs = 1) {
    return graph[graph.add_node(internal_operator(op), concat(op, graph.nodes.size()), std::move(a), std::move(in), outputs)].outputs[0];
  }
  ValueId parameter(const std::string& name, Shape shape) {
    return graph.add_parameter(name, {DType::float32, shape}, Tensor(TensorType{DType::float32, shape}), true);
  }
  ValueId conv(ValueId v, Attributes a = {}, std::int64_t channels = 16) {
    const std::int64_t group = a.integer("group", 1);
    return node("Conv", {v, parameter(concat('w', graph.nodes.size()), {channels, graph[v].type.shape[1] / group, 1, 1})}, std::move(a));
  }
  ValueId norm(ValueId v) {
    const std::int64_t channels = graph[v].type.shape[1];
    return node("BatchNormalizationTraining",
                {v, parameter(concat('s', graph.nodes.size()), {channels}), parameter(concat('b', graph.nodes.size()), {channels})}, {}, 4);
  }
};

struct Row {
  const char* name;
  Fuses gains;  // what the plan's backends say
  ValueId (*output)(Network&);
  std::string expected;
};
const std::string sums = "BatchNormalizationTraining(Conv(x, w0), s1, b1, -, Conv:1(x, w0), Conv:2(x, w0))",
                  apart = "BatchNormalizationTraining(Conv(x, w0), s1, b1)";
const Fuses all = small_models::chains, none = [](const KernelRequest&) { return false; };
const Fuses only_the_convolution = [](const KernelRequest& r) { return r.op == "Conv"; };
const Row rows[] = {
    {"plain", all, [](Network& n) { return n.norm(n.conv(n.x)); }, sums},
    {"normalizations_cannot_take_them", only_the_convolution, [](Network& n) { return n.norm(n.conv(n.x)); }, apart},
    {"not_wanted", none, [](Network& n) { return n.norm(n.conv(n.x)); }, apart},
    {"groups", all, [](Network& n) { return n.norm(n.conv(n.x, {{"group", std::int64_t{8}}})); }, apart},
    {"an_image", all, [](Network& n) { return n.norm(n.conv(n.image)); }, "BatchNormalizationTraining(Conv(image, w0), s1, b1)"},
    {"odd_channels", all, [](Network& n) { return n.norm(n.conv(n.x, {}, 12)); }, apart},
    {"not_behind_a_convolution", all, [](Network& n) { return n.norm(n.x); }, "BatchNormalizationTraining(x, s0, b0)"},
    {"read_elsewhere",
     all,
     [](Network& n) {
       const ValueId y = n.conv(n.x);
       return n.node("Add", {n.norm(y), y});
     },
     "Add(" + sums + ", Conv(x, w0))"},
};

class ChannelSums : public testing::TestWithParam<Row> {};

TEST_P(ChannelSums, AreTakenByTheConvolution) {
  Network n;
  n.graph.outputs = {GetParam().output(n)};
  const Graph got = passed("sum_channels", n.graph, {.fuses = GetParam().gains});
  verify(got);
  EXPECT_EQ(got.nodes.size(), n.graph.nodes.size());
  EXPECT_EQ(test::expression(got, got.outputs[0]), GetParam().expected);
}
INSTANTIATE_TEST_SUITE_P(Rows, ChannelSums, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.name); });

TEST(ChannelSums, TrainingIsTheSame) {
  using namespace small_models;
  for (const std::vector<double>& devices : {std::vector<double>{1}, {2, 1}, {1, 0}}) {
    AskedCpu backend;
    const Trained wanted = train_on(backend, chain, options_for(6, devices), 4, 0.05);
    backend.gains = [](const KernelRequest& r) { return chains(r) && (r.op == "Conv" ? r.inputs.size() == 2 : r.op.starts_with("Batch")); };
    const Trained got = train_on(backend, chain, options_for(6, devices), 4, 0.05);
    const std::vector<Step>& steps = got.plan.program_of(0).steps;
    EXPECT_EQ(std::count_if(steps.begin(), steps.end(), [](const Step& s) { return s.op() == "Conv" && s.outputs.size() == 3; }), 3);
    expect_close(got, wanted);
  }
}

// What a backend is not sure to gain by is planned both ways where kernels are timed, and goes by the kernels' times.
TEST(ChannelSums, GoByTimeWhereABackendIsNotSure) {
  using namespace small_models;
  AskedCpu backend;
  backend.gains = [](const KernelRequest& r) { return chains(r) && (r.op == "Conv" ? r.inputs.size() == 2 : r.op.starts_with("Batch")); };
  const Backend* const backends[] = {&backend};
  const auto summed = [&](bool timed, double seconds_of_sums) {
    backend.seconds = [=](const KernelDescription& d) { return d.inputs.size() == 2 && d.outputs.size() == 3 ? seconds_of_sums : 1e-6; };
    CompileOptions o = options_for(6, {1});
    o.tuning.autotune = timed;
    const std::vector<Step> steps = compile(chain, o, backends).program_of(0).steps;
    return std::count_if(steps.begin(), steps.end(), [](const Step& s) { return s.op() == "Conv" && s.outputs.size() == 3; });
  };
  for (const bool timed : {false, true}) {
    backend.sure = Gain::yes;
    EXPECT_EQ(summed(timed, 1), 3) << timed;
    backend.sure = Gain::optional;
    EXPECT_EQ(summed(timed, 1), timed ? 0 : 3) << timed;
    EXPECT_EQ(summed(timed, 1e-6), 3) << timed;
  }
}

}  // namespace
}  // namespace tandem
