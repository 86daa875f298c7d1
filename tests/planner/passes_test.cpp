// Passes one by one, graph in and graph out. Fusions have files of their own.
#include <gtest/gtest.h>

#include "graph/parse.h"
#include "planner/loss/attach_loss.h"
#include "planner/loss/labels.h"
#include "planner/passes/run_passes.h"
#include "planner/place/cut.h"
#include "planner/place/place.h"
#include "planner/rewrite/fusing.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"
#include "planner/rewrite/simplify.h"
#include "tests/graph/notation.h"
#include "tests/planner/passed.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

using namespace small_models;
using test::expression;
using Names = std::vector<std::string>;

constexpr DType f = DType::float32;

std::vector<std::string> outputs_of(const Graph& graph) {
  std::vector<std::string> texts;
  for (const GraphOutput& out : graph.outputs) texts.push_back(concat(name_of(out.role), ' ', out.of, ": ", expression(graph, out)));
  return texts;
}

// Nodes on inputs x [2,3] and y [2,3], and a trained parameter w [3].
struct Small {
  Graph graph;
  ValueId x = graph.add_input("x", {f, {2, 3}}), y = graph.add_input("y", {f, {2, 3}});
  ValueId w = graph.add_parameter("w", {f, {3}}, Tensor(TensorType{f, {3}}), true);
  GraphBuilder b{graph, "n", {}};
};

struct SimplifyRow {
  const char* name;
  std::vector<ValueId> (*outputs)(Small&);
  std::vector<std::string> expected;
};
const SimplifyRow simplifications[] = {
    {"unneeded", [](Small& s) { s.b.neg(s.x); return std::vector{s.b.add(s.x, s.y)}; }, {"Add(x, y)"}},
    {"times_one", [](Small& s) { return std::vector{s.b.neg(s.b.mul(s.x, 1.0))}; }, {"Neg(x)"}},
    {"times_one_of_another_shape", [](Small& s) { return std::vector{s.b.mul(s.b.emit("ReduceSum", {s.x}, {{"axes", Ints{0}}, {"keepdims", std::int64_t{1}}}), 1.0)}; }, {"ReduceSum(x)"}},
    {"times_two", [](Small& s) { return std::vector{s.b.mul(s.x, 2.0)}; }, {"Mul(x, 2)"}},
    {"there_and_back", [](Small& s) { return std::vector{s.b.neg(s.b.transpose(s.b.transpose(s.x, {1, 0}), {1, 0}))}; }, {"Neg(x)"}},
    {"reshaped_twice", [](Small& s) { return std::vector{s.b.neg(s.b.reshape(s.b.reshape(s.x, Shape{6}), Shape{3, 2}))}; }, {"Neg(Reshape(x))"}},
    {"what_is_given_stays_apart", [](Small& s) { return std::vector{s.b.add(s.x, s.y), s.b.sub(s.x, s.y)}; }, {"Add(x, y)", "Sub(x, y)"}},
};

TEST(Simplify, LeavesTheseExpressions) {
  for (const SimplifyRow& row : simplifications) {
    SCOPED_TRACE(row.name);
    Small s;
    const std::vector<ValueId> outputs = row.outputs(s);
    s.graph.outputs.assign(outputs.begin(), outputs.end());
    const Graph got = simplify(s.graph);
    verify(got);
    std::vector<std::string> texts;
    for (const ValueId out : got.outputs) texts.push_back(expression(got, out));
    EXPECT_EQ(texts, row.expected);
    for (std::size_t i = 0; i < outputs.size(); ++i) EXPECT_EQ(got[got.outputs[i]].type, s.graph[outputs[i]].type);
  }
}

TEST(Simplify, ComputesOnceAndKeepsUpdatesAndRoles) {
  Small s;
  s.graph.outputs = {{s.b.add(s.b.neg(s.x), s.b.neg(s.x)), ValueRole::metric, "twice"}};
  s.b.emit("RunningStatistics", {s.w, s.graph.add_input("mean", {f, {3}})}, {{"momentum", 0.5F}});
  const Graph got = simplify(s.graph);
  EXPECT_EQ(operators_of(got), (Names{"Neg", "Add", "RunningStatistics"}));
  EXPECT_EQ(outputs_of(got), (Names{"metric twice: Add(Neg(x), Neg(x))"}));
}

TEST(FuseElementwise, JoinsWhatNothingElseReads) {
  Small s;
  const ValueId shared = s.b.neg(s.x);
  const ValueId chain = s.b.emit("Exp", {s.b.mul(s.b.add(shared, s.y), 2.0)});
  s.graph.outputs = {s.b.reduce_sum(chain, {0, 1}, false), s.b.reduce_sum(shared, {0, 1}, false)};
  const Graph got = passed("fuse_elementwise", s.graph);
  verify(got);
  EXPECT_EQ(operators_of(got), (Names{"Elementwise", "Elementwise", "ReduceSum", "ReduceSum"}));
  const Node& program = got.nodes[1];
  EXPECT_EQ(to_string(*program.attributes.find("ops")), "[Add,Mul,Exp]");
  EXPECT_EQ(program.inputs[0], got.nodes[0].outputs[0]);
}

TEST(FuseElementwise, LeavesIntegersAndOtherShapesAlone) {
  Graph g;
  GraphBuilder b(g, "n", {});
  const ValueId i = g.add_input("i", {DType::int64, {2, 3}}), x = g.add_input("x", {f, {3}}), y = g.add_input("y", {f, {2, 3}});
  g.outputs = {b.add(b.add(i, i), i), b.add(b.neg(x), y)};  // -x has fewer elements than the sum: it is computed once
  EXPECT_EQ(operators_of(passed("fuse_elementwise", g)), (Names{"Add", "Add", "Elementwise", "Elementwise"}));
}

struct LossRow {
  const char* loss;
  Shape scores;
  TensorType label;
  const char* expression;
  bool counts;
};

TEST(AttachLoss, IsASumOverTheGlobalBatch) {
  const std::vector<LossRow> rows{
      {"softmax-cross-entropy", {5}, {DType::int64, {}}, "SoftmaxCrossEntropyTraining(z, labels)", true},
      {"mse", {1}, {f, {1}}, "Mul(ReduceSum(Mul(Sub(z, labels), Sub(z, labels))), 0.125)", false},
      {"l1", {1}, {f, {1}}, "Mul(ReduceSum(Abs(Sub(z, labels))), 0.125)", false},
  };
  for (const LossRow& row : rows) {
    SCOPED_TRACE(row.loss);
    Graph g;
    Shape all = row.scores;
    all.dims.insert(all.dims.begin(), 3);
    g.outputs = {g.add_input("z", {f, all})};
    const Labels labels{.loss = row.loss,
                        .value = "z",
                        .scores = row.scores,
                        .axis = row.counts ? 0 : -1,
                        .classes = row.counts ? 5 : 0,
                        .sample = row.label};
    attach_loss(g, std::span(&labels, 1), 3, {.batch = 8}, true);
    verify(g);
    EXPECT_EQ(expression(g, g.outputs[0]), row.expression);
    EXPECT_EQ(g[g.outputs[0]].type.shape, Shape{});
    EXPECT_EQ(g.outputs.size(), row.counts ? 2 : 1);
    EXPECT_EQ(g[*g.find(ValueRole::label)].name, "labels");
  }
}

// A graph with a loss, the sum of (x · w)².
Graph squares() {
  Small s;
  const ValueId z = s.b.mul(s.x, s.w);
  s.graph.add_parameter("unread", {f, {3}}, Tensor(TensorType{f, {3}}), true);
  s.graph.outputs = {{s.b.reduce_sum(s.b.mul(z, z), {0, 1}, false), ValueRole::loss}};
  return s.graph;
}

TEST(AddGradients, AreOutputsOfTheirParameters) {
  std::vector<std::string> warnings;
  const Graph got = passed("add_gradients", squares(), {.warnings = &warnings});
  ASSERT_EQ(got.outputs.size(), 2U);
  EXPECT_EQ(got.outputs[1].role, ValueRole::gradient);
  EXPECT_EQ(got.outputs[1].of, "w");
  EXPECT_EQ(got[got.outputs[1]].type.shape, Shape{3});
  EXPECT_EQ(warnings, (Names{"the loss does not depend on 'unread': it keeps its value"}));
}

// What was cut into parts gets their gradients side by side; where they overlap or leave something out, their sum.
TEST(AddGradients, OfPartsAreJoined) {
  struct {
    const char* name;
    std::vector<std::pair<std::int64_t, std::int64_t>> parts;
    std::size_t joins;
  } const rows[] = {{"whole", {{2, 6}, {0, 2}}, 1}, {"with_a_gap", {{3, 6}, {0, 2}}, 0}, {"overlapping", {{1, 6}, {0, 2}}, 0}, {"one", {{1, 6}}, 0}};
  for (const auto& row : rows) {
    SCOPED_TRACE(row.name);
    Graph graph;
    GraphBuilder b(graph, "parts", {});
    const ValueId w = graph.add_parameter("w", {f, {2, 6}}, Tensor(TensorType{f, {2, 6}}), true);
    const ValueId x = b.emit("Exp", {w});
    ValueId loss;
    for (const auto& [begin, end] : row.parts) {
      const ValueId part = b.emit("Slice", {x}, {{"starts", Ints{begin}}, {"ends", Ints{end}}, {"axes", Ints{1}}});
      const ValueId sum = b.reduce_sum(b.mul(part, part), {0, 1}, false);
      loss = loss.present() ? b.add(loss, sum) : sum;
    }
    graph.outputs = {{loss, ValueRole::loss}};
    std::vector<std::string> warnings;
    const Graph got = simplify(passed("add_gradients", graph, {.warnings = &warnings}));
    const std::string gradient = expression(got, got.outputs[1]);
    const auto count = [&](const std::string& op) {
      std::size_t n = 0;
      for (std::size_t at = gradient.find(op); at != std::string::npos; at = gradient.find(op, at + 1)) ++n;
      return n;
    };
    EXPECT_EQ(count("Concat("), row.joins) << gradient;
    EXPECT_EQ(count("SliceBackward("), row.joins ? 0 : row.parts.size()) << gradient;
  }
}

TEST(AddGradients, OfAScaledLossTellTheScale) {
  std::vector<std::string> warnings;
  CompileOptions o;
  o.loss.scaling = LossScaling{};
  const Graph got = passed("add_gradients", squares(), {.options = o, .warnings = &warnings});
  EXPECT_EQ(expression(got, output_as(got, ValueRole::metric, "loss_scale")), "LossScale(tandem.loss_scale)");
  EXPECT_EQ(got[*got.find(ValueRole::optimizer_state)].name, "tandem.loss_scale");
}

Graph with_gradients() {
  std::vector<std::string> warnings;
  return passed("add_gradients", squares(), {.warnings = &warnings});
}

TEST(KeepGradients, AsMetricsBesides) {
  CompileOptions o;
  o.keep_gradients = {"w", "unread"};
  const Graph got = passed("keep_gradients", with_gradients(), {.options = o});
  ASSERT_EQ(got.outputs.size(), 3U);
  EXPECT_EQ(got.outputs[2].of, "gradient/w");
  EXPECT_EQ(got.outputs[2].value, got.outputs[1].value);
}

TEST(Place, SumsGradientsAndWeightsStatistics) {
  Graph g = with_gradients();
  const ValueId statistic = g.add_parameter("running", {f, {3}}, Tensor(TensorType{f, {3}}), false);
  GraphBuilder b(g, "bn", {});
  const auto ones = [&](const char* name) { return g.add_parameter(name, {f, {3}}, Tensor(TensorType{f, {3}}), false); };
  const ValueId mean = b.emit("BatchNormalizationTraining", {g.inputs[0], ones("scale"), ones("bias")}, {{"epsilon", 1e-5F}}, 4)[1];
  b.emit("RunningStatistics", {statistic, mean}, {{"momentum", 0.5F}});
  const CompileOptions o;
  const PassContext c{.options = o};
  std::vector<std::string> warnings;
  const Graph got = passed("place", g, {.placement = two_devices(g), .warnings = &warnings});
  EXPECT_EQ(warnings, Names{});
  verify(got);
  EXPECT_EQ(expression(got, got.outputs[0]), "ReduceSum(Mul(Mul(x, w), Mul(x, w)))");
  EXPECT_EQ(to_string(got[got.outputs[0]].placement, got.groups), "partial") << "the host adds the losses";
  EXPECT_EQ(got[got[got.outputs[1]].producer].op->name, "AllReduce");
  EXPECT_EQ(got[got.outputs[1]].of, "w");
  EXPECT_EQ(expression(got, got.nodes.back().outputs[0]),
            "RunningStatistics(running, AllReduce(Mul(BatchNormalizationTraining:1(x, scale, bias), 1)))");
  EXPECT_EQ(breach_of(Property::whole, got, c), "");
}

TEST(AppendUpdates, TakeGradientsAndStandLast) {
  Graph g = with_gradients();
  CompileOptions o;
  o.optimizer = optimizer_defaults("adam");
  const Graph got = passed("append_updates", g, {.options = o});
  verify(got);
  EXPECT_EQ(got.outputs.size(), 1U);
  const Node& update = got.nodes.back();
  EXPECT_EQ(update.op->name, "AdamUpdate");
  EXPECT_EQ(got[update.inputs[0]].role, ValueRole::step_state);
  std::vector<std::string> written;
  for (const ValueId v : updated_by(update)) written.push_back(concat(got[v].name, ' ', name_of(got[v].role)));
  EXPECT_EQ(written, (Names{"w plain", "adam_m/w optimizer state", "adam_v/w optimizer state"}));
}

PlacementRequest by_sizes(const Graph& g, std::vector<std::int64_t> sizes) { return by_samples(g, sizes); }

// A device without samples has zeros for the sums, and the updates.
TEST(Cut, AnIdleDeviceAddsZerosAndUpdates) {
  CompileOptions o;
  std::vector<std::string> warnings;
  Graph g = with_gradients();
  const std::int64_t batch = g[g.inputs[0]].type.shape[0];
  for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{1, batch - 1, 0}, {batch, 0}, {0, batch}}) {
    const int idle = static_cast<int>(std::find(sizes.begin(), sizes.end(), 0) - sizes.begin()), busy = idle == 0 ? 1 : 0;
    const Graph whole = passed(
                    "bucket_sums",
                    passed("append_updates", passed("place", g, {.placement = by_sizes(g, sizes), .warnings = &warnings}), {.options = o}),
                    {.options = o}),
                got = cut(whole, idle).graph, other = cut(whole, busy).graph;
    verify(got);
    EXPECT_EQ(operators_of(got), (Names{"Fill", "AllReduce", "SgdUpdate", "Fill"}));
    EXPECT_EQ(got.outputs[0].role, ValueRole::loss);
    EXPECT_EQ(got[got.outputs[0]].type, other[other.outputs[0]].type);
    EXPECT_EQ(other.nodes.size(),
              cut(passed("place", g, {.placement = by_sizes(g, {1, batch - 1}), .warnings = &warnings}), 0).graph.nodes.size() + 1)
        << "what one device has all of is not moved";
  }
  EXPECT_EQ(warnings, Names{});
}

// What a pass asks the backends of is the node that it would make.
TEST(Fusing, DescribesTheNode) {
  std::vector<KernelRequest> asked;
  const Fuses fuses = [&](const KernelRequest& r) {
    asked.push_back(r);
    return r.op == "Conv";
  };
  const TensorType x{DType::float16, {2, 8, 4, 4}}, w{DType::float16, {16, 8, 1, 1}}, c{DType::float16, {8}};
  EXPECT_TRUE(offered(fuses, internal_operator("Conv"), {}, {x, w, {}, c, c}, 3));
  EXPECT_FALSE(offered(fuses, internal_operator("Relu"), {}, {x}, 1));
  EXPECT_FALSE(offered({}, internal_operator("Conv"), {}, {x, w}, 3));
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_FALSE(asked[0].inputs[2].present());
  EXPECT_EQ(asked[0].outputs, (std::vector<Operand>{{DType::float16, {2, 16, 4, 4}, {}}, {f, {16}, {}}, {f, {16}, {}}}));
}

// A plan has what all of its backends gain by.
TEST(Fusing, AsksAllBackends) {
  AskedCpu one, other;
  other.called = "other";
  one.gains = [](const KernelRequest& r) { return r.options.deterministic; };
  const Backend* backends[] = {&one, &other};
  CompileOptions o;
  o.kernel.deterministic = true;
  const Attributes none;
  const KernelRequest request{.op = "Relu", .attributes = &none};
  o.devices = {{{"cpu", 0}}, {{"cpu", 1}}};
  EXPECT_EQ(gains_on(o, backends)(request), Gain::yes);
  o.devices.push_back({{"other", 0}});
  EXPECT_EQ(gains_on(o, backends)(request), Gain::no);
  other.gains = one.gains;
  other.sure = Gain::optional;
  EXPECT_EQ(gains_on(o, backends)(request), Gain::optional);
}

// Each round makes one view of a parameter the parameter's own shape.
TEST(Simplify, SaysWhereItsRoundsEnd) {
  const auto with_views = [](int views) {
    std::string text = "trained v0 float32[2,3,1]\n";
    for (int i = 0; i < views; ++i)
      text += concat('v', i + 1, " = ",
                     i % 2 == 0 ? concat("Transpose(v", i, ") {perm=[2,0,1]}") : concat("Reshape(v", i, ") {shape=[2,3,1]}"), '\n');
    return parse(concat(text, "y = Relu(v", views, ")\ngives y"));
  };
  for (const int views : {1, 5, 8}) {
    std::vector<std::string> warnings;
    passed("simplify", with_views(views), {.warnings = &warnings});
    EXPECT_EQ(warnings.size(), views > 5 ? 1U : 0U) << views;
  }
}

// An operator that is composed of itself.
TEST(Expand, EndsWhereItsRoundsDo) {
  static const Operator endless{
      .name = "Endless",
      .infer = [](InferContext& c) { c.set_output(0, c.input(0)); },
      .expand = [](ExpandContext& e) { return e.graph()[e.graph().add_node(endless, "inner", {}, {e.x()}, 1)].outputs; }};
  Graph g;
  const ValueId x = g.add_input("x", {f, {2}});
  g.outputs = {g[g.add_node(endless, "outer", {}, {x}, 1)].outputs[0]};
  expect_error("Endless 'inner' is composed of what is composed in turn, more than 8 times over", [&] { passed("expand", g); });
}

}  // namespace
}  // namespace tandem
