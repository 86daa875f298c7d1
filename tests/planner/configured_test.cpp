// Placements that a file's device configuration says: what the rules make of it, what is refused, and that a plan's own one gives that
// plan.
#include "planner/place/configured.h"

#include <gtest/gtest.h>

#include "planner/place/by_rules.h"
#include "planner/place/parallel.h"
#include "planner/plan/plan_file.h"
#include "tests/planner/placed_plans.h"

namespace tandem {
namespace {

using namespace small_models;
using Sharding = TensorSharding;
using Stated = DeviceConfiguration::Node;

CompileOptions on(std::size_t devices, const char* parallel = "", std::vector<Parallelism::Place> places = {}) {
  CompileOptions o = options_for(8, std::vector<double>(devices, 1));
  o.parallel = parse_parallelism(parallel);
  o.parallel.places = std::move(places);
  return o;
}
CompileOptions as_said(DeviceConfiguration c) {
  CompileOptions o = options_for(8, std::vector<double>(static_cast<std::size_t>(c.devices), 1));
  o.configuration = std::move(c);
  return o;
}
std::vector<std::string> text_of(const std::vector<DeviceGroup>& groups) {
  std::vector<std::string> text;
  for (const DeviceGroup& g : groups) {
    text.push_back(g.name);
    for (const MeshAxis& a : g.axes) text.back() += concat(' ', a.name, '=', a.length());
  }
  return text;
}
using Texts = std::vector<std::string>;

struct Way {
  const char* name;
  Graph (*model)(std::int64_t);
  std::size_t devices;
  const char* parallel;
  std::vector<Parallelism::Place> places = {};
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }
class PlansOfTheirOwn : public testing::TestWithParam<Way> {};
TEST_P(PlansOfTheirOwn, AreSaidByTheirConfiguration) {
  const Way& way = GetParam();
  Plan plan = plan_of(way.model, on(way.devices, way.parallel, way.places));
  Plan again = plan_of(way.model, as_said(configuration_of(plan, "mine")));
  plan.warnings.clear();  // of what was looked for and not found
  again.warnings.clear();
  EXPECT_EQ(json_of(again), json_of(plan));
  EXPECT_EQ(hash_of(again), hash_of(plan));
}
INSTANTIATE_TEST_SUITE_P(
    Rows, PlansOfTheirOwn,
    testing::Values(Way{"replicas", mlp, 4, "data=4"}, Way{"layers", deep, 2, "tensor=2"}, Way{"both", deep, 4, "data=2,tensor=2"}, Way{"parts_of_parameters", mlp, 8, "zero=2"},
                    Way{"nodes", mlp, 2, "", {{"Gemm2", {1}}}}, Way{"nodes_on_replicas", mlp, 4, "", {{"Gemm2", {2, 3}}}}, Way{"nodes_that_share_layers", deep, 4, "tensor=2", {{"out", {2, 3}}, {"odd", {2, 3}}}},
                    Way{"a_weight_elsewhere", mlp, 2, "", {{"w2", {0}}, {"*", {1}}}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Configured, StagesAndMeshesAreAsTheRulesSay) {
  const auto request = [&](DeviceConfiguration c, Graph (*model)(std::int64_t) = mlp) {
    const CompileOptions o = as_said(std::move(c));
    return configured(model(o.batch), o);
  };
  // Stages by their order, whatever they count from; they share the devices.
  const PlacementRequest stages =
      request({.name = "c", .devices = 4, .device_names = {}, .nodes = {{"Gemm0", {{}, 1}}, {"Gemm2", {{}, 7}}}, .tensors = {}});
  EXPECT_EQ(text_of(stages.groups), (Texts{"cpu:0-1 data=2", "cpu:2-3 data=2"}));
  EXPECT_EQ(stages.nodes.at("Gemm0"), 0);
  EXPECT_EQ(stages.nodes.at("Gemm2"), 1);
  EXPECT_EQ(stages.stages, 2);
  // A stage is where its results are said to be.
  const PlacementRequest said = request({.name = "c",
                                         .devices = 2,
                                         .device_names = {},
                                         .nodes = {{"Gemm0", {{1}, 0}}, {"Gemm2", {{0}, 1}}, {"Relu1", {{}, 0}}},
                                         .tensors = {}});
  EXPECT_EQ(text_of(said.groups), (Texts{"cpu:1", "cpu:0"})) << "in the order of stages";
  EXPECT_EQ(said.stages, 2);
  EXPECT_EQ(said.nodes.at("Gemm0"), 0);
  EXPECT_EQ(said.nodes.at("Relu1"), 0);
  EXPECT_EQ(said.nodes.at("Gemm2"), 1);
  // Stages that work in turns are no pipeline; groups may be it without stages.
  const auto stages_of = [&](std::map<std::string, Stated> nodes) {
    return request({.name = "c", .devices = 2, .device_names = {}, .nodes = std::move(nodes), .tensors = {}}).stages;
  };
  EXPECT_EQ(stages_of({{"Gemm0", {{}, 1}}, {"Gemm2", {{}, 0}}}), 0);
  EXPECT_EQ(stages_of({{"Gemm0", {{0}, {}}}, {"Gemm2", {{1}, {}}}}), 0);
  // Chunks: four stages on two devices.
  CompileOptions chunks = as_said({.name = "c",
                                   .devices = 2,
                                   .device_names = {},
                                   .nodes = {{"Gemm0", {{}, 0}}, {"Relu1", {{}, 1}}, {"Gemm2", {{}, 2}}, {"none", {{}, 3}}},
                                   .tensors = {}});
  chunks.parallel.schedule = parse_pipeline_schedule("interleaved=2");
  const PlacementRequest apart = configured(mlp(8), chunks);
  EXPECT_EQ(text_of(apart.groups), (Texts{"cpu:0", "cpu:1", "cpu:0", "cpu:1"}));
  EXPECT_EQ(apart.nodes.at("Gemm2"), 2);
  // Nothing said: replicas.
  const PlacementRequest replicas = request({.name = "c", .devices = 3, .device_names = {}, .nodes = {}, .tensors = {}});
  EXPECT_EQ(text_of(replicas.groups), (Texts{"cpu:0-2 data=3"}));
  // Copies of two parts: the axis of copies is that of samples.
  const PlacementRequest mesh =
      request({.name = "c", .devices = 4, .device_names = {}, .nodes = {}, .tensors = {{"w1", Sharding{{{0, 2}, {1, 3}}, {{0, 2}}}}}});
  EXPECT_EQ(text_of(mesh.groups), (Texts{"cpu:0-3 data=2 tensor=2"}));
  EXPECT_EQ(mesh.values.at("w1")[1], Part::split(0));
  EXPECT_EQ(mesh.values.at("x")[0], Part::split(0));
  const PlacementRequest other =
      request({.name = "c", .devices = 4, .device_names = {}, .nodes = {}, .tensors = {{"w1", Sharding{{{0, 1}, {2, 3}}, {{0, 2}}}}}});
  EXPECT_EQ(text_of(other.groups), (Texts{"cpu:0-3 tensor=2 data=2"}));
  // A device that has several parts has them of runs.
  const auto along_w1 = [&](std::vector<std::vector<int>> devices, int of) {
    const std::vector<TensorSharding::Dim> dims{{0, std::ssize(devices)}};
    return request({.name = "c", .devices = of, .device_names = {}, .nodes = {}, .tensors = {{"w1", Sharding{std::move(devices), dims}}}})
        .values.at("w1");
  };
  EXPECT_EQ(along_w1({{0}, {1}, {0}, {1}}, 2)[0], Part::split(0, 2));
  EXPECT_EQ(along_w1({{0}, {0}, {1}, {1}}, 2)[0], Part::split(0));
  EXPECT_EQ(along_w1({{0}, {0}, {1}, {1}, {0}, {1}, {0}, {1}}, 2)[0], Part::runs(0, {4, 2, 2}));
  EXPECT_EQ(along_w1({{0, 2}, {0, 2}, {1, 3}, {1, 3}, {0, 2}, {1, 3}, {0, 2}, {1, 3}}, 4)[1], Part::runs(0, {4, 2, 2}));
  // An input by its samples.
  const PlacementRequest input = request({.name = "c",
                                          .devices = 2,
                                          .device_names = {},
                                          .nodes = {},
                                          .tensors = {{"x", Sharding{{{0}, {1}}, {{0, 2}}}}, {"w2", Sharding{{{0, 1}}, {}}}}});
  EXPECT_EQ(text_of(input.groups), (Texts{"cpu:0-1 data=2"}));
}

TEST(Configured, TrainsAsOneDeviceDoes) {
  const Sharding columns{{{0}, {1}}, {{0, 2}}}, rows{{{0}, {1}}, {{0, 2}}};
  const DeviceConfiguration layers{
      .name = "c", .devices = 2, .device_names = {}, .nodes = {}, .tensors = {{"w1", columns}, {"b1", columns}, {"w2", rows}}};
  const DeviceConfiguration stages{
      .name = "c", .devices = 2, .device_names = {}, .nodes = {{"Gemm0", {{}, 0}}, {"Relu1", {{}, 0}}, {"Gemm2", {{}, 1}}}, .tensors = {}};
  const Trained one = train(mlp, options_for(8, {1}), 8, 0.1);
  for (const DeviceConfiguration& c : {layers, stages}) {
    const Trained two = train(mlp, as_said(c), 8, 0.1);
    for (std::size_t s = 0; s < one.losses.size(); ++s) EXPECT_NEAR(two.losses[s], one.losses[s], 1e-5F * one.losses[0]) << "step " << s;
  }
}

TEST(Configured, MistakesAreNamed) {
  const auto refused = [](DeviceConfiguration c, const std::string& message, std::size_t devices = 0) {
    CompileOptions o = as_said(std::move(c));
    if (devices > 0) o.devices = options_for(8, std::vector<double>(devices, 1)).devices;
    expect_refused(mlp, o, message);
  };
  refused({.name = "c", .devices = 4, .device_names = {}, .nodes = {}, .tensors = {}},
          "option configuration 'c': it is for 4 devices, there are 2", 2);
  refused({.name = "c", .devices = 3, .device_names = {}, .nodes = {{"Gemm0", {{}, 0}}, {"Gemm2", {{}, 1}}}, .tensors = {}},
          "2 of 2 pipeline stages say nothing of their devices");
  refused({.name = "c", .devices = 2, .device_names = {}, .nodes = {{"Gemm0", {{0}, 0}}, {"Gemm2", {{}, 1}}}, .tensors = {}},
          "1 of 2 pipeline stages say nothing");
  refused({.name = "c", .devices = 2, .device_names = {}, .nodes = {{"Gemm0", {{0}, {}}}, {"Gemm2", {{0, 1}, {}}}}, .tensors = {}},
          "nodes share device 0 with different others");
  refused({.name = "c", .devices = 3, .device_names = {}, .nodes = {{"Gemm0", {{0}, {}}}}, .tensors = {}},
          "its groups have 1 and 2 devices");
  refused({.name = "c", .devices = 2, .device_names = {}, .nodes = {}, .tensors = {{"w1", Sharding{{{1}, {0}}, {{0, 2}}}}}},
          "the parts of 'w1' do not lie in the order of the devices");
  refused({.name = "c", .devices = 2, .device_names = {}, .nodes = {}, .tensors = {{"w1", Sharding{{{0}, {1}, {1}, {0}}, {{0, 4}}}}}},
          "the parts of 'w1' do not lie in the order of the devices");
  refused({.name = "c", .devices = 4, .device_names = {}, .nodes = {}, .tensors = {{"w1", Sharding{{{0}, {1}}, {{0, 2}}}}}},
          "'w1' lies on some of cpu:0-3");
  refused({.name = "c", .devices = 4, .device_names = {}, .nodes = {}, .tensors = {{"w1", Sharding{{{0}, {1}, {2}, {3}}, {{0, 4}}}}, {"w2", Sharding{{{0, 1}, {2, 3}}, {{0, 2}}}}}},
          "axis 0 of 'w1' is split over several axes of the mesh");
  CompileOptions uneven = on(2);
  uneven.devices[0].weight = 3;
  EXPECT_THROW(configuration_of(plan_of(mlp, uneven), "c"), Error);
  EXPECT_THROW(configuration_of(plan_of(mlp, on(3, "zero=1")), "c"), Error);  // 5 rows over 3
}

}  // namespace
}  // namespace tandem
