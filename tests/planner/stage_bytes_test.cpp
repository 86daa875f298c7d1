// What a device holds of a model that is large beside its activations, by how parameters and states lie in parts.
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/plan/plan_file.h"
#include "tests/planner/placed_plans.h"

namespace tandem {
namespace {

using namespace small_models;

constexpr std::int64_t width = 512, tokens = 2, heads = 8, layers = 6;
constexpr std::size_t devices = 4;

// Layers of a transformer. Parameters have no values: none is read by a plan.
Graph layers_of(std::int64_t n, bool trains) {
  Builder b;
  b.graph.name = "large";
  const auto weight = [&](const std::string& name, Shape shape) {
    return b.graph.add_parameter(name, {DType::float32, std::move(shape)}, std::nullopt, trains);
  };
  const auto dense = [&](ValueId x, const std::string& name, std::int64_t in, std::int64_t out) {
    return b.node("Add", {b.node("MatMul", {x, weight(name, {in, out})}), weight(name + ".bias", {out})});
  };
  const auto normal = [&](ValueId x, const std::string& name) {
    return b.node("LayerNormalization", {x, weight(name, {width}), weight(name + ".bias", {width})}, {{"axis", std::int64_t{-1}}});
  };
  const auto by_heads = [&](ValueId x, Ints perm) {
    return b.node("Transpose", {b.node("Reshape", {x}, {{"shape", Ints{n, tokens, heads, width / heads}}})}, {{"perm", std::move(perm)}});
  };
  ValueId x = b.graph.add_input("x", {DType::float32, {n, tokens, width}});
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string name = concat("layer", i, '.');
    const ValueId y = normal(x, name + "norm1"), q = by_heads(dense(y, name + "q", width, width), {0, 2, 1, 3}),
                  k = by_heads(dense(y, name + "k", width, width), {0, 2, 3, 1}),
                  v = by_heads(dense(y, name + "v", width, width), {0, 2, 1, 3});
    const ValueId scores = b.node("Softmax", {b.node("MatMul", {q, k})}, {{"axis", std::int64_t{-1}}});
    const ValueId read = b.node("Transpose", {b.node("MatMul", {scores, v})}, {{"perm", Ints{0, 2, 1, 3}}});
    x = b.node("Add", {x, dense(b.node("Reshape", {read}, {{"shape", Ints{n, tokens, width}}}), name + "proj", width, width)});
    const ValueId up = b.node("Gelu", {dense(normal(x, name + "norm2"), name + "up", width, 4 * width)});
    x = b.node("Add", {x, dense(up, name + "down", 4 * width, width)});
  }
  x = b.node("ReduceMean", {x}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}});
  b.graph.outputs = {b.node("Gemm", {x, weight("head", {width, 5}), weight("head.bias", {5})})};
  return b.graph;
}

Graph large(std::int64_t n) { return layers_of(n, true); }
Graph trained(std::int64_t n) { return layers_of(n, false); }
Graph frozen(std::int64_t n) {
  Graph graph = layers_of(n, false);
  for (Value& v : graph.values) v.trainable = v.kind == ValueKind::parameter && v.name.starts_with("head");
  return graph;
}

struct Stage {
  const char *name, *parallel;
  double whole, parts;  // bytes a parameter on each device; those that the devices share out
  int weights;          // of the largest size, that are whole beside: a gradient before it is summed, a parameter that is gathered
};
void PrintTo(const Stage& row, std::ostream* out) { *out << row.name; }
class StageBytes : public testing::TestWithParam<Stage> {};

// Adam's two states, a gradient and a parameter are 16 bytes. Source: Rajbhandari et al., "ZeRO", 2020, of float32 alone.
TEST_P(StageBytes, AreTheFormulas) {
  const auto plan_as = [](const char* parallel) {
    CompileOptions o = shared_by(devices, parallel);
    o.batch = devices;
    o.optimizer = optimizer_defaults("adam");
    return plan_of(large, o);
  };
  const Plan plan = plan_as(GetParam().parallel);
  std::int64_t parameters = 0, largest = 0;
  for (const PlanParameter& p : plan.parameters) {
    if (p.role != ValueRole::plain) continue;
    parameters += p.type.shape.elements();
    largest = std::max(largest, p.type.shape.elements());
  }
  const auto scratch = [](const Plan& of) { return *std::ranges::find(of.program_of(0).arenas, ArenaKind::scratch, &Arena::kind); };
  const Arena own = scratch(plan);
  const double formula = static_cast<double>(parameters) * (GetParam().whole + GetParam().parts / static_cast<double>(devices));
  // What the formula leaves out: whole weights on their way, activations, and places between buffers that nothing fits in.
  const auto beside = 4 * GetParam().weights * largest + scratch(plan_as("data=4")).bytes + (own.bytes - own.lower_bound);
  EXPECT_NEAR(static_cast<double>(plan.program_of(0).peak_bytes()) / (formula + static_cast<double>(beside)), 1, 0.01);
}

INSTANTIATE_TEST_SUITE_P(Rows, StageBytes,
                         testing::Values(Stage{"replicas", "data=4", 16, 0, 0}, Stage{"states", "zero=1", 4, 12, 1},
                                         Stage{"states_and_gradients", "zero=2", 4, 12, 1}, Stage{"all", "zero=3", 0, 16, 2}),
                         [](const auto& info) { return std::string(info.param.name); });

// The base that adapters are trained on is not trained, and lies in parts, too; by stages 1 and 2 it is whole, as it is read.
TEST(StageBytes, OfFrozenParametersAreThoseOfParts) {
  const auto plan_as = [](const char* parallel) {
    CompileOptions o = shared_by(devices, parallel);
    o.batch = devices;
    return plan_of(frozen, o);
  };
  const Plan replicas = plan_as("data=4"), states = plan_as("zero=2"), all = plan_as("zero=3");
  const auto of_parameters = [](const Plan& plan) {
    return std::ranges::find(plan.program_of(0).arenas, ArenaKind::parameters, &Arena::kind)->bytes;
  };
  EXPECT_NEAR(static_cast<double>(of_parameters(all)) / static_cast<double>(of_parameters(replicas)), 1.0 / devices, 0.01);
  EXPECT_NEAR(static_cast<double>(of_parameters(states)) / static_cast<double>(of_parameters(replicas)), 1, 0.01);
  const std::int64_t largest = 4 * 4 * width * width;
  EXPECT_LT(all.program_of(0).peak_bytes(), of_parameters(replicas) / 4 + 2 * largest + 2 * width * width) << text_of_plan(all, true);
}

// Predictions gather a layer's parameters when it computes.
TEST(StageBytes, OfPredictionsAreThoseOfPartsAndALayer) {
  CompileOptions o = shared_by(devices, "zero=3");
  o.batch = devices;
  o.mode = PlanMode::inference;
  const Plan plan = plan_of(trained, o);
  std::int64_t parameters = 0, largest = 0;
  for (const PlanParameter& p : plan.parameters) {
    parameters += p.type.shape.elements();
    largest = std::max(largest, p.type.shape.elements());
  }
  const std::int64_t part = parameters / static_cast<std::int64_t>(devices);
  EXPECT_LT(plan.program_of(0).peak_bytes(), 4 * (part + 2 * largest)) << text_of_plan(plan, true);
}

}  // namespace
}  // namespace tandem
