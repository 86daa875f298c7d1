// Nodes and parameters that rules put on devices: what a rule names, who follows, that it trains as one device does, what is refused.
#include "planner/place/by_rules.h"

#include <gtest/gtest.h>

#include <set>

#include "planner/place/parallel.h"
#include "tests/planner/placed_plans.h"

namespace tandem {
namespace {

using namespace small_models;

TEST(RulesOfPlaces, NameNodesByTheirModules) {
  struct Row {
    const char *pattern, *name;
    bool named;
  };
  for (const Row& row : {Row{"encoder.layer.[0-5].*", "/encoder/layer.3/MatMul", true},
                         {"encoder.layer.[0-5].*", "/encoder/layer.6/MatMul", false},
                         {"encoder.layer.1", "/encoder/layer.1/attention/MatMul", true},
                         {"encoder.layer.1", "/encoder/layer.11/MatMul", false},
                         {"encoder/layer.1", "/encoder/layer.1/MatMul", true},
                         {"/encoder", "/encoder/MatMul", false},
                         {"/encoder/*", "/encoder/MatMul", true},
                         {"fc1", "fc1.weight", true},
                         {"fc", "fc1.weight", false},
                         {"fc*", "fc1", true},
                         {"*", "x", true}})
    EXPECT_EQ(names(row.pattern, row.name), row.named) << row.pattern << " and " << row.name;
  EXPECT_TRUE(names("encoder.layer.[0-2]", "node_linear_7", {"encoder", "encoder.layer.2"}));
  EXPECT_FALSE(names("encoder.layer.[0-1]", "node_linear_7", {"encoder", "encoder.layer.2"}));
}

Parallelism::Place rule(const char* pattern, std::vector<int> devices) { return {.pattern = pattern, .devices = std::move(devices)}; }

CompileOptions placed(std::size_t devices, std::vector<Parallelism::Place> rules, const char* parallel = "") {
  CompileOptions o = options_for(8, std::vector<double>(devices, 1));
  o.parallel = parse_parallelism(parallel);
  o.parallel.places = std::move(rules);
  return o;
}
// The devices that have a parameter, or a state of it.
std::vector<int> home_of(const Plan& plan, const std::string& name) {
  std::vector<int> devices;
  for (const PlanParameter& p : plan.parameters)
    if (p.name == name)
      for (const ParameterPart& part : plan.parts_of(p)) devices.push_back(part.device);
  return devices;
}
std::set<std::string> origins_on(const Plan& plan, std::size_t device) {
  std::set<std::string> nodes;
  for (const Step& s : plan.program_of(device).steps)
    if (s.as<LaunchStep>()) nodes.insert(s.origin.begin(), s.origin.end());
  return nodes;
}

// Two branches that read one input, and what joins them.
Graph branches(std::int64_t n) {
  Builder b;
  b.graph.name = "branches";
  const ValueId x = b.graph.add_input("x", {DType::float32, {n, 20}});
  const auto relu = [&](ValueId v) { return b.node("Relu", {v}); };
  const ValueId left = relu(gemm(b, x, "left/in", 20, 16)), right = relu(gemm(b, x, "right/in", 20, 24));
  const ValueId both =
      b.node("Concat", {gemm(b, left, "left/out", 16, 8), gemm(b, right, "right/out", 24, 8)}, {{"axis", std::int64_t{1}}});
  b.graph.outputs = {gemm(b, relu(both), "head", 16, 5)};
  return b.graph;
}

struct Way {
  const char* name;
  Graph (*model)(std::int64_t);
  std::size_t devices;
  std::vector<Parallelism::Place> rules;
  const char* parallel = "";
  const char* optimizer = "sgd";
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }
class TrainingByRules : public testing::TestWithParam<Way> {};
TEST_P(TrainingByRules, IsThatOfOneDevice) {
  const Way& way = GetParam();
  const auto options = [&](CompileOptions o) {
    o.optimizer = optimizer_defaults(way.optimizer);
    o.optimizer.clip_norm = 1;
    if (o.optimizer.name == "sgd") o.optimizer.momentum = 0.9;
    return o;
  };
  const double rate = std::string_view(way.optimizer) == "sgd" ? 0.1 : 0.01;
  const Trained one = train(way.model, options(options_for(8, {1})), 8, rate),
                some = train(way.model, options(placed(way.devices, way.rules, way.parallel)), 8, rate);
  expect_trained_alike(some, one, 1e-5);
  // What measures has parameters where they are.
  CompileOptions measuring = options(placed(way.devices, way.rules, way.parallel));
  measuring.mode = PlanMode::inference;
  const Backend* backends[] = {&cpu_backend()};
  const Plan measured = compile(way.model, measuring, backends, &some.plan);
  for (const PlanParameter& p : measured.parameters) EXPECT_EQ(home_of(measured, p.name), home_of(some.plan, p.name)) << p.name;
}
INSTANTIATE_TEST_SUITE_P(
    Rows, TrainingByRules,
    testing::Values(Way{"a_layer_elsewhere", mlp, 2, {rule("Gemm2", {1})}}, Way{"the_first_layer_elsewhere", mlp, 2, {rule("Gemm0", {1}), rule("Gemm2", {0})}},
                    Way{"by_adamw", mlp, 2, {rule("Gemm2", {1})}, "", "adamw"}, Way{"by_muon", mlp, 2, {rule("Gemm2", {1})}, "", "muon"}, Way{"by_adafactor", branches, 2, {rule("right", {1})}, "", "adafactor"},
                    Way{"by_lamb", mlp, 2, {rule("Gemm2", {1})}, "", "lamb"}, Way{"a_weight_alone", mlp, 2, {rule("w2", {1})}, "", "adamw"},
                    Way{"weights_at_home", mlp, 2, {rule("w?", {0}), rule("b?", {0}), rule("*", {1})}, "", "adam"}, Way{"branches_apart", branches, 2, {rule("right", {1})}},
                    Way{"branches_on_three", branches, 3, {rule("left", {1}), rule("right", {2}), rule("head", {0})}, "", "adam"},
                    Way{"replicas_in_groups", mlp, 4, {rule("Gemm2", {2, 3})}}, Way{"layers_in_groups", deep, 4, {rule("middle", {2, 3}), rule("odd", {2, 3}), rule("out", {2, 3})}, "tensor=2"},
                    Way{"convolutions", convnet, 2, {rule("Conv2", {1})}}, Way{"parts_in_groups", mlp, 4, {rule("Gemm2", {2, 3})}, "zero=1"}),
    [](const auto& info) { return std::string(info.param.name); });

// A step whose gradients are not finite on one device is skipped by all.
TEST(RulesOfPlaces, AStepIsSkippedByAllDevicesOrNone) {
  const auto scaled = [](CompileOptions o) {
    o.loss.scaling = LossScaling{.start = 0x1p126, .interval = 2};
    return o;
  };
  const Trained one = train(mlp, scaled(options_for(8, {1})), 12, 0.05),
                two = train(mlp, scaled(placed(2, {rule("Gemm2", {1})})), 12, 0.05);
  EXPECT_EQ(two.scales, one.scales);
  EXPECT_FALSE(std::ranges::is_sorted(one.scales)) << "no step is skipped";
  for (std::size_t s = 0; s < one.losses.size(); ++s) EXPECT_NEAR(two.losses[s], one.losses[s], 1e-5F * one.losses[0]) << "step " << s;
}

TEST(RulesOfPlaces, SayWhereNodesWorkAndWeightsLive) {
  const Plan plan = plan_of(branches, placed(2, {rule("right", {1})}));
  for (const char* name : {"right/in", "right/inb", "right/out"}) EXPECT_EQ(home_of(plan, name), std::vector<int>{1}) << name;
  for (const char* name : {"left/in", "left/out", "momentum/left/in"}) EXPECT_EQ(home_of(plan, name), std::vector<int>{0}) << name;
  EXPECT_EQ(home_of(plan, "momentum/right/in"), std::vector<int>{1});
  // What joins the branches, and what follows it, works where the last operand is.
  EXPECT_EQ(home_of(plan, "head"), std::vector<int>{1});
  EXPECT_FALSE(origins_on(plan, 0).contains("right/in"));  // forward or backward
  EXPECT_FALSE(origins_on(plan, 1).contains("left/out"));
  // The first rule that names it counts.
  const Plan first = plan_of(mlp, placed(2, {rule("w2", {1}), rule("*", {0})}));
  EXPECT_EQ(home_of(first, "w2"), std::vector<int>{1});
  EXPECT_EQ(home_of(first, "b2"), std::vector<int>{0});
  EXPECT_TRUE(origins_on(first, 0).contains("Gemm2"));
  // Nodes that no rule names go where a weight is put.
  EXPECT_TRUE(origins_on(plan_of(mlp, placed(2, {rule("w2", {1})})), 1).contains("Gemm2"));
  CompileOptions by_modules = placed(2, {rule("head.linear", {1})});
  by_modules.modules["Gemm2"] = {"head", "head.linear"};
  EXPECT_EQ(home_of(plan_of(mlp, by_modules), "w2"), std::vector<int>{1});
}

TEST(RulesOfPlaces, MistakesAreNamed) {
  const auto refused = [](const CompileOptions& o, const std::string& message) { expect_refused(mlp, o, message); };
  refused(placed(2, {rule("Gem2", {1})}),
          "option place 'Gem2=cpu:1': model 'mlp' has no node, module or parameter of such a name, did you mean 'Gemm2'?");
  refused(placed(3, {rule("Gemm2", {1})}), "cpu:0, cpu:2 and cpu:1 are groups of different sizes (no rule names cpu:0, cpu:2)");
  refused(placed(3, {rule("Gemm0", {0, 1}), rule("Gemm2", {1, 2})}),
          "option place 'Gemm2=cpu:1-2': another rule has cpu:1 with other devices");
  refused(placed(4, {rule("Gemm2", {2, 3})}, "data=4"), "data=4,tensor=1 on 2 devices");
  CompileOptions of_file = placed(2, {rule("folded", {1})});
  of_file.parallel.places[0].of_file = true;
  EXPECT_NO_THROW(plan_of(mlp, of_file));
}

}  // namespace
}  // namespace tandem
