// Placement by hand and by rule: what lies where, what moves, and that devices which do different things compute what one does.
#include <gtest/gtest.h>

#include <set>

#include "planner/passes/passes.h"
#include "planner/plan/plan_file.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

using namespace small_models;
using Kinds = std::multiset<std::string>;

// What each device exchanges in a step.
std::vector<Kinds> exchanges_of(const Plan& plan) {
  std::vector<Kinds> list;
  for (const DevicePlan& d : plan.devices) {
    list.emplace_back();
    for (const Step& s : d.steps)
      if (s.as<ExchangeStep>()) list.back().insert(std::string(kind_of(plan, s)));
  }
  return list;
}

const PlanParameter& parameter(const Plan& plan, std::string_view name) {
  return *std::find_if(plan.parameters.begin(), plan.parameters.end(), [&](const PlanParameter& p) { return p.name == name; });
}

CompileOptions placed(std::size_t devices, PlacementRequest request) {
  CompileOptions o = options_for(6, std::vector<double>(devices, 1));
  o.placement = std::move(request);
  return o;
}

// mlp's first layer by columns, its second by rows: each device has half of the hidden units.
const std::map<std::string, std::vector<Part>, std::less<>> halves_of_the_hidden_layer{{"w1", {Part::split(0)}}, {"b1", {Part::split(0)}}, {"w2", {Part::split(0)}}};

TEST(Placement, TensorParallelByHandTrainsAsOneDevice) {
  const PlacementRequest request{.groups = {{"all", {{"columns", {1, 1}}}, {0, 1}}}, .nodes = {}, .values = halves_of_the_hidden_layer};
  const Trained one = train(mlp, options_for(6, {1}), 8, 0.1), two = train(mlp, placed(2, request), 8, 0.1);
  expect_close(two, one);
  EXPECT_LT(two.losses.back(), 0.7F * two.losses.front());
  for (const char* name : {"w1", "b1", "w2"}) {
    const PlanParameter& p = parameter(two.plan, name);
    ASSERT_EQ(p.parts.size(), 2U) << name;
    EXPECT_EQ(p.parts[0].axis, 0) << name;
    EXPECT_EQ(p.parts[1].begin, 16) << name;
    EXPECT_EQ(p.parts[0].operand.shape.elements() * 2, p.type.shape.elements()) << name;
  }
  EXPECT_EQ(parameter(two.plan, "b2").parts[1].axis, -1);
  // One sum a step, of the second layer's output: no gradient moves.
  EXPECT_EQ(exchanges_of(two.plan), (std::vector<Kinds>{{"all_reduce"}, {"all_reduce"}}));
}

TEST(Placement, UnequalPartsOfALayer) {
  const PlacementRequest request{.groups = {{"all", {{"columns", {3, 1}}}, {0, 1}}}, .nodes = {}, .values = halves_of_the_hidden_layer};
  const Trained one = train(mlp, options_for(6, {1}), 5, 0.1), two = train(mlp, placed(2, request), 5, 0.1);
  expect_close(two, one);
  EXPECT_EQ(parameter(two.plan, "w1").parts[1].begin, 24);
}

TEST(Placement, TwoStagesByHandTrainAsOneDevice) {
  const PlacementRequest request{.groups = {{"first", {}, {0}}, {"second", {}, {1}}}, .nodes = {{"Gemm0", 0}, {"Relu1", 0}, {"Gemm2", 1}}, .values = {}};
  const Trained one = train(mlp, options_for(6, {1}), 8, 0.1), two = train(mlp, placed(2, request), 8, 0.1);
  ASSERT_EQ(two.losses.size(), one.losses.size());
  for (std::size_t s = 0; s < one.losses.size(); ++s) EXPECT_NEAR(two.losses[s], one.losses[s], 1e-4F * one.losses[0]) << "step " << s;
  // Hidden units there, their gradient back.
  EXPECT_EQ(exchanges_of(two.plan), (std::vector<Kinds>{{"receive", "send"}, {"receive", "send"}}));
  for (const auto& [name, device] : std::vector<std::pair<std::string, int>>{{"w1", 0}, {"b1", 0}, {"w2", 1}, {"b2", 1}}) {
    const PlanParameter& p = parameter(two.plan, name);
    ASSERT_EQ(p.parts.size(), 1U) << name;
    EXPECT_EQ(p.parts[0].device, device) << name;
  }
  std::set<std::string> first, second;
  for (const Step& s : two.plan.devices[0].steps) first.emplace(s.op());
  for (const Step& s : two.plan.devices[1].steps) second.emplace(s.op());
  EXPECT_FALSE(first.contains("SoftmaxCrossEntropyTraining"));
  EXPECT_TRUE(second.contains("SoftmaxCrossEntropyTraining"));
}

// Samples along one axis of the mesh, the hidden layer along the other.
TEST(Placement, SamplesAndColumnsTogether) {
  const Part split = Part::split(0), whole;
  const PlacementRequest request{.groups = {{"all", {{"samples", {2, 1}}, {"columns", {1, 1}}}, {0, 1, 2, 3}}},
                                 .nodes = {},
                                 .values = {{"x", {split, whole}}, {"labels", {split, whole}}, {"w1", {whole, split}}, {"b1", {whole, split}}, {"w2", {whole, split}}}};
  const Trained one = train(mlp, options_for(6, {1}), 5, 0.1), four = train(mlp, placed(4, request), 5, 0.1);
  expect_close(four, one);
  EXPECT_EQ(four.plan.devices[0].slice_size, 4);
  EXPECT_EQ(four.plan.devices[3].slice_begin, 4);
  for (const Exchange& e : four.plan.exchanges) {
    EXPECT_EQ(e.devices.size(), 2U) << e.name;
    EXPECT_EQ(e.kind, ExchangeKind::all_reduce) << e.name;
  }
}

TEST(Placement, PlansOfProgramsThatDifferAreReadAsWritten) {
  const PlacementRequest request{.groups = {{"first", {}, {0}}, {"second", {}, {1}}}, .nodes = {{"Gemm0", 0}, {"Relu1", 0}, {"Gemm2", 1}}, .values = {}};
  const Backend* backends[] = {&cpu_backend()};
  const Plan plan = compile(mlp, placed(2, request), backends);
  EXPECT_EQ(serialize(parse_plan(serialize(plan))), serialize(plan));
  const std::string text = text_of_plan(plan, true);
  EXPECT_NE(text.find("send"), std::string::npos);
  EXPECT_NE(text.find("receive"), std::string::npos);
}

Graph with_loss(std::int64_t n, ValueId (*loss)(Builder&, ValueId scores, ValueId labels)) {
  Builder b;
  b.graph.name = "own loss";
  const ValueId x = b.graph.add_input("x", {DType::float32, {n, 20}}), labels = b.graph.add_input("labels", {DType::int64, {n}});
  b.graph.outputs = {loss(b, b.node("Gemm", {x, b.weight("w", {20, 5}, 0.3F), b.weight("b", {5}, 0.1F)}), labels)};
  return b.graph;
}
// Labels are 0 to 3: those of 0 do not count.
Graph mean_of_some(std::int64_t n) {
  return with_loss(n, [](Builder& b, ValueId scores, ValueId labels) { return b.node("SoftmaxCrossEntropyLoss", {scores, labels}, {{"reduction", std::string("mean")}, {"ignore_index", std::int64_t{0}}}); });
}
Graph mean_of_squares(std::int64_t n) {
  return with_loss(n, [](Builder& b, ValueId scores, ValueId) { return b.node("ReduceMean", {b.node("Mul", {scores, scores})}, {{"axes", Ints{0, 1}}, {"keepdims", std::int64_t{0}}}); });
}
// By the largest score of the batch, which no part of it knows.
Graph by_the_largest(std::int64_t n) {
  return with_loss(n, [](Builder& b, ValueId scores, ValueId) {
    const ValueId largest = b.node("ReduceMax", {scores}, {{"axes", Ints{0}}, {"keepdims", std::int64_t{1}}});
    return b.node("ReduceMean", {b.node("Mul", {b.node("Sub", {scores, largest}), scores})}, {{"axes", Ints{0, 1}}, {"keepdims", std::int64_t{0}}});
  });
}

// A model's own loss is that of the whole batch, however samples meet in it.
TEST(Placement, OwnLossesAreOfTheWholeBatch) {
  struct {
    Graph (*model)(std::int64_t);
    std::size_t gathers;
  } const rows[] = {{mean_of_some, 0}, {mean_of_squares, 0}, {by_the_largest, 1}};
  for (const auto& row : rows) {
    CompileOptions one = options_for(6, {1}), two = options_for(6, {2, 1});
    one.loss = two.loss = "output";
    const Trained got = train(row.model, two, 5, 0.1);
    expect_close(got, train(row.model, one, 5, 0.1));
    EXPECT_EQ(exchanges_of(got.plan)[0].count("all_gather"), row.gathers);
  }
}

// Inputs by their samples, gradients summed: what every plan for several devices does.
TEST(Placement, OfSamplesIsAsTheRulesSay) {
  std::map<std::string, std::string> placements;
  CompileOptions o = options_for(6, {2, 1, 0});
  o.after_pass = [&](const PassResult& r) {
    for (std::size_t i = 0; i < r.graph.values.size(); ++i) placements[r.graph.values[i].name] = to_string(r.graph.values[i].placement, r.graph.groups);
  };
  const Backend* backends[] = {&cpu_backend()};
  compile(normalized, o, backends);
  for (const auto& [name, where] : std::vector<std::pair<std::string, std::string>>{{"x", "split(0)"}, {"labels", "split(0)"}, {"c", "broadcast"}, {"running", ""}, {"mean", "broadcast"}}) EXPECT_EQ(placements[name], where) << name;
  std::set<std::string> kinds;
  for (const auto& [name, where] : placements) kinds.insert(where);
  EXPECT_TRUE(kinds.contains("partial"));
  EXPECT_TRUE(kinds.contains("own")) << "statistics of a device's own samples";
}

}  // namespace
}  // namespace tandem
