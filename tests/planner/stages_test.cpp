// Pipelines: which part of a model each stage has, that it trains as one device does, and what is refused.
#include "planner/place/stages.h"

#include <gtest/gtest.h>

#include <set>

#include "planner/place/parallel.h"
#include "tests/planner/placed_plans.h"

namespace tandem {
namespace {

using namespace small_models;

// Blocks of a transformer. `skips`: what the first one gives is added to what the last one does.
Graph blocks_of(std::int64_t n, int blocks, bool tied, bool skips = true) {
  constexpr std::int64_t tokens = 3, width = 8, heads = 4, words = 16;
  Builder b;
  b.graph.name = "blocks";
  const auto by_heads = [&](ValueId x, Ints perm) {
    return b.node("Transpose", {b.node("Reshape", {x}, {{"shape", Ints{n, tokens, heads, width / heads}}})}, {{"perm", std::move(perm)}});
  };
  const ValueId given = b.graph.add_input("x", {DType::float32, {n, tokens}});
  const ValueId scale = b.graph.add_constant("span", Tensor::scalar(4.0F));
  const ValueId word = b.node("Cast", {b.node("Clip", {b.node("Mul", {b.node("Abs", {given}), scale})}, {{"min", 0.0F}, {"max", 15.0F}})},
                              {{"to", static_cast<std::int64_t>(DType::int64)}});
  const ValueId table = b.weight("table", {words, width}, 0.3F);
  ValueId x = b.node("Gather", {table, word}, {{"axis", std::int64_t{0}}});
  ValueId first;
  for (int i = 0; i < blocks; ++i) {
    const std::string name = concat("layer.", i, ".");
    const ValueId y = normal(b, x, name + "norm1");
    const ValueId q = by_heads(dense(b, y, name + "q", width, width), {0, 2, 1, 3}),
                  k = by_heads(dense(b, y, name + "k", width, width, false), {0, 2, 3, 1}),
                  v = by_heads(dense(b, y, name + "v", width, width), {0, 2, 1, 3});
    const ValueId scores = b.node("Softmax", {b.node("MatMul", {q, k})}, {{"axis", std::int64_t{-1}}});
    const ValueId read = b.node("Transpose", {b.node("MatMul", {scores, v})}, {{"perm", Ints{0, 2, 1, 3}}});
    x = b.node("Add", {x, dense(b, b.node("Reshape", {read}, {{"shape", Ints{n, tokens, width}}}), name + "proj", width, width)});
    const ValueId wide = b.node("Gelu", {dense(b, normal(b, x, name + "norm2"), name + "up", width, 2 * width)});
    x = b.node("Add", {x, dense(b, wide, name + "down", 2 * width, width)});
    if (i == 0) first = x;
  }
  x = normal(b, skips ? b.node("Add", {x, first}) : x, "norm");
  x = b.node("ReduceMean", {x}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}});
  b.graph.outputs = {tied ? b.node("MatMul", {x, b.node("Transpose", {table}, {{"perm", Ints{1, 0}}})}) : dense(b, x, "head", width, 5)};
  return b.graph;
}
Graph blocks(std::int64_t n) { return blocks_of(n, 4, false); }
Graph tied_blocks(std::int64_t n) { return blocks_of(n, 4, true); }
Graph in_a_row(std::int64_t n) { return blocks_of(n, 8, false, false); }
Graph tied_in_a_row(std::int64_t n) { return blocks_of(n, 4, true, false); }

// Layers on frozen weights of 8 bits, of which the biases are trained.
Graph int8_layers(std::int64_t n) {
  constexpr std::int64_t width = 16;
  Builder b;
  b.graph.name = "int8";
  ValueId x = b.graph.add_input("x", {DType::float32, {n, width}});
  for (int i = 0; i < 4; ++i) {
    const std::string name = concat("layer.", i);
    const TensorType type{DType::int8, {width, width}};
    Tensor bytes(type);
    for (std::int64_t k = 0; k < type.shape.elements(); ++k)
      bytes.write<std::int8_t>()[at(static_cast<int>(k))] = static_cast<std::int8_t>((k * 37 + i) % 25 - 12);
    const ValueId weight = b.graph.add_parameter(concat(name, ".weight"), type, std::move(bytes), false),
                  scale = b.graph.add_constant(concat(name, ".scale"), Tensor::scalar(0.02F));
    const ValueId wide = b.node("DequantizeLinear", {weight, scale}, {{"axis", std::int64_t{1}}});
    x = b.node("Tanh", {b.node("Add", {b.node("MatMul", {x, wide}), b.weight(concat(name, ".bias"), {width}, 0.1F)})});
  }
  b.graph.outputs = {x};
  return b.graph;
}

// Seven layers of one size.
Graph seven_of(std::int64_t n, std::int64_t width) {
  Builder b;
  b.graph.name = "seven";
  ValueId x = b.graph.add_input("x", {DType::float32, {n, width}});
  for (int i = 0; i < 7; ++i) x = gemm(b, x, concat("layer.", i), width, width);
  b.graph.outputs = {x};
  return b.graph;
}
Graph seven(std::int64_t n) { return seven_of(n, 16); }
Graph seven_wide(std::int64_t n) { return seven_of(n, 256); }

struct Ways {
  const char* name;
  Graph (*model)(std::int64_t);
  std::size_t devices;
  const char* parallel;
  const char *stages = "", *schedule = "1f1b";
  std::int64_t micro_batches = 1;
};
void PrintTo(const Ways& row, std::ostream* out) { *out << row.name; }
CompileOptions staged(const Ways& row) {
  CompileOptions o = shared_by(row.devices, row.parallel);
  o.parallel.stages = parse_stages(row.stages);
  o.parallel.schedule = parse_pipeline_schedule(row.schedule);
  o.parallel.micro_batches = row.micro_batches;
  return o;
}

class TrainingByStages : public testing::TestWithParam<Ways> {};
TEST_P(TrainingByStages, IsThatOfOneDevice) {
  for (const double clip : {0.0, 0.05}) {
    SCOPED_TRACE(clip);
    CompileOptions one = options_for(8, {1}), many = staged(GetParam());
    one.optimizer.clip_norm = many.optimizer.clip_norm = clip;
    one.parallel.micro_batches = GetParam().micro_batches;
    const Trained alone = train(GetParam().model, one, 8, 0.05), some = train(GetParam().model, many, 8, 0.05);
    expect_trained_alike(some, alone, 1e-5);
    // A plan that measures has parameters where they are.
    many.mode = PlanMode::inference;
    const Backend* backends[] = {&cpu_backend()};
    EXPECT_NO_THROW(compile(GetParam().model, many, backends, &some.plan));
  }
}
INSTANTIATE_TEST_SUITE_P(
    Rows, TrainingByStages,
    testing::Values(Ways{"mlp_2", mlp, 2, "pipeline=2"}, Ways{"deep_4", deep, 4, "pipeline=4"}, Ways{"seven_4", seven, 4, "pipeline=4"}, Ways{"convnet_3", convnet, 3, "pipeline=3"},
                    Ways{"blocks_2", blocks, 2, "pipeline=2"}, Ways{"blocks_4", blocks, 4, "pipeline=4"}, Ways{"tied_2", tied_blocks, 2, "pipeline=2"}, Ways{"tied_4", tied_blocks, 4, "pipeline=4"},
                    Ways{"data_and_stages", blocks, 4, "data=2,pipeline=2"}, Ways{"tensor_and_stages", blocks, 4, "tensor=2,pipeline=2"}, Ways{"all_three", blocks, 8, "data=2,tensor=2,pipeline=2"},
                    Ways{"zero_and_stages", blocks, 4, "data=2,pipeline=2,zero=1"}, Ways{"zero_3_and_stages", blocks, 4, "data=2,pipeline=2,zero=3"},
                    Ways{"named", blocks, 2, "pipeline=2", "rest;layer.[2-3].*,norm,norm.*,head,head.*"}, Ways{"interleaved", blocks, 2, "pipeline=2", "", "interleaved=2"},
                    Ways{"interleaved_data", blocks, 4, "data=2,pipeline=2", "", "interleaved=2"}, Ways{"tied_interleaved", tied_blocks, 2, "pipeline=2", "", "interleaved=3"},
                    Ways{"gpipe_8", blocks, 2, "pipeline=2", "", "gpipe", 8}, Ways{"of_four_gpipe_8", blocks, 4, "pipeline=4", "", "gpipe", 8}, Ways{"of_two_8", blocks, 2, "pipeline=2", "", "1f1b", 8}, Ways{"of_four_8", blocks, 4, "pipeline=4", "", "1f1b", 8}, Ways{"of_four_2", blocks, 4, "pipeline=4", "", "1f1b", 2},
                    Ways{"zb_h1_8", blocks, 2, "pipeline=2", "", "zb-h1", 8}, Ways{"of_four_zb_h1_8", blocks, 4, "pipeline=4", "", "zb-h1", 8}, Ways{"zb_h1_tied_4", tied_blocks, 4, "pipeline=4", "", "zb-h1", 4}, Ways{"zb_h1_alone_4", seven, 2, "data=2", "", "zb-h1", 4},
                    Ways{"interleaved_8", in_a_row, 2, "pipeline=2", "", "interleaved=2", 8}, Ways{"of_four_interleaved_8", in_a_row, 4, "pipeline=4", "", "interleaved=2", 8}, Ways{"interleaved_skip_8", blocks, 2, "pipeline=2", "", "interleaved=2", 8}, Ways{"interleaved_skip_of_four_8", blocks, 4, "pipeline=4", "", "interleaved=2", 8}, Ways{"interleaved_tied_8", tied_blocks, 2, "pipeline=2", "", "interleaved=2", 8}, Ways{"interleaved_tied_of_four_4", tied_blocks, 4, "pipeline=4", "", "interleaved=2", 4}, Ways{"interleaved_tied_in_three_4", tied_in_a_row, 2, "pipeline=2", "", "interleaved=3", 4}, Ways{"interleaved_mesh_4", in_a_row, 4, "data=2,pipeline=2", "", "interleaved=2", 4},
                    Ways{"all_three_4", blocks, 8, "data=2,tensor=2,pipeline=2", "", "1f1b", 4}, Ways{"all_three_zb_h1_4", blocks, 8, "data=2,tensor=2,pipeline=2", "", "zb-h1", 4}, Ways{"zero_4", blocks, 4, "data=2,pipeline=2,zero=1", "", "1f1b", 4}, Ways{"zero_3_zb_h1_4", blocks, 4, "data=2,pipeline=2,zero=3", "", "zb-h1", 4},
                    Ways{"named_4", blocks, 2, "pipeline=2", "rest;layer.[2-3].*,norm,norm.*,head,head.*", "1f1b", 4}, Ways{"seven_in_four_8", seven, 4, "pipeline=4", "", "1f1b", 8}, Ways{"statistics_4", normalized, 2, "pipeline=2", "", "1f1b", 4},
                    Ways{"int8_2", int8_layers, 2, "pipeline=2"}, Ways{"int8_in_four_4", int8_layers, 4, "pipeline=4", "", "1f1b", 4}, Ways{"int8_mesh_zb_h1_4", int8_layers, 4, "data=2,pipeline=2", "", "zb-h1", 4}, Ways{"int8_interleaved_4", int8_layers, 2, "pipeline=2", "", "interleaved=2", 4}),
    [](const auto& info) { return std::string(info.param.name); });

std::map<std::string, int> groups_of(const Ways& row) {
  const CompileOptions o = staged(row);
  const PlacementRequest request = request_for(row.model(o.batch), o);
  return {request.nodes.begin(), request.nodes.end()};
}

TEST(Stages, HaveEveryNodeInOrder) {
  for (const Ways& row : {Ways{"", seven, 4, "pipeline=4"}, {"", blocks, 4, "pipeline=4"}, {"", tied_blocks, 6, "data=2,pipeline=3"},
                          {"", blocks, 2, "pipeline=2", "", "interleaved=4"}}) {
    const CompileOptions o = staged(row);
    const Graph model = row.model(o.batch);
    const PlacementRequest request = request_for(model, o);
    EXPECT_EQ(request.groups.size(), static_cast<std::size_t>(request.stages * o.parallel.schedule.chunks));
    std::set<int> met;
    for (const Node& node : model.nodes)
      for (const std::string& name : node.origin) {
        ASSERT_TRUE(request.nodes.contains(name)) << name;
        met.insert(request.nodes.at(name));
      }
    EXPECT_EQ(met.size(), request.groups.size());
    EXPECT_EQ(value_backwards(model, request.nodes), "");
  }
  std::map<int, int> layers;
  for (const auto& [name, group] : groups_of({"", seven, 4, "pipeline=4"})) ++layers[group];
  EXPECT_EQ(layers, (std::map<int, int>{{0, 2}, {1, 2}, {2, 2}, {3, 1}}));
}

TEST(Stages, AreNeighboursInTheListOfDevices) {
  const CompileOptions o = staged({"", blocks, 8, "data=2,tensor=2,pipeline=2", "", "interleaved=2"});
  const PlacementRequest request = request_for(blocks(8), o);
  ASSERT_EQ(request.groups.size(), 4U);
  EXPECT_EQ(request.stages, 2);
  const std::vector<std::string> names{"cpu:0-3", "cpu:4-7", "cpu:0-3, chunk 1", "cpu:4-7, chunk 1"};
  for (std::size_t g = 0; g < 4; ++g) {
    EXPECT_EQ(request.groups[g].name, names[g]);
    EXPECT_EQ(request.groups[g].devices[0], g % 2 == 0 ? 0 : 4);
    ASSERT_EQ(request.groups[g].axes.size(), 2U);
    EXPECT_EQ(request.groups[g].axes[1].name, "tensor");
  }
}

// Work goes by the devices' shares, and away from devices with little memory.
TEST(Stages, AreAsLargeAsTheirDevices) {
  const auto layers_of = [](std::vector<double> weights, std::vector<std::int64_t> most) {
    CompileOptions o = options_for(8, weights);
    o.parallel = parse_parallelism("pipeline=2");
    o.memory.most = std::move(most);
    std::vector<int> count(2);
    for (const auto& [name, group] : request_for(seven(8), o).nodes) ++count[static_cast<std::size_t>(group)];
    return count;
  };
  EXPECT_EQ(layers_of({5, 2}, {}), (std::vector<int>{5, 2}));
  EXPECT_EQ(layers_of({1, 6}, {}), (std::vector<int>{1, 6}));
  // A layer has 272 parameters of 4 bytes, three times, and keeps 8 * 16 numbers of 4 bytes.
  const std::int64_t layer = 3 * 272 * 4 + 8 * 16 * 4;
  EXPECT_EQ(layers_of({1, 1}, {2 * layer, 100 * layer}), (std::vector<int>{2, 5}));
  EXPECT_EQ(layers_of({1, 1}, {100 * layer, layer}), (std::vector<int>{6, 1}));
  EXPECT_EQ(layers_of({1, 1}, {layer, 2 * layer}), (std::vector<int>{2, 5})) << "nothing fits: the fullest is as little over as can be";
}

// Devices whose free memory is what a test says.
class LimitedCpu final : public AskedCpu {
 public:
  std::vector<std::int64_t> free;
  std::int64_t free_memory(int index, int) const override { return free[static_cast<std::size_t>(index)]; }
};

// Where no limit is given what is free counts.
TEST(Stages, GoAwayFromDevicesWithLittleMemory) {
  LimitedCpu cpu;
  const Backend* backends[] = {&cpu};
  const auto weights_of = [&](std::vector<std::int64_t> free) {
    cpu.free = std::move(free);
    const Plan plan = compile(seven_wide, staged({"", seven_wide, 2, "pipeline=2"}), backends);
    std::vector<int> count(2);
    for (const PlanParameter& p : plan.parameters)
      for (const ProgramPart& part : p.parts)
        if (p.role == ValueRole::plain && p.type.shape.rank() == 2) ++count[static_cast<std::size_t>(part.program.index)];
    return count;
  };
  // A layer's weights are 256 KiB, and as much are their gradient and momentum.
  constexpr std::int64_t much = std::int64_t{1} << 30, layer = 3 * 256 << 10;
  EXPECT_EQ(weights_of({much, much}), (std::vector<int>{4, 3}));
  EXPECT_EQ(weights_of({4 * layer, much}), (std::vector<int>{3, 4}));
  EXPECT_EQ(weights_of({much, 3 * layer}), (std::vector<int>{5, 2}));
}

TEST(Stages, AreWhatPatternsName) {
  // By parameters; what is between follows its operands.
  const auto groups = groups_of({"", blocks, 2, "pipeline=2", "layer.[0-1].*,table;layer.[2-3].*"});
  EXPECT_EQ(groups.at("Abs0"), 0);
  const Graph model = blocks(8);
  const auto reads = [&](const Node& node, const std::string& parameter) {
    return std::ranges::any_of(node.inputs, [&](ValueId in) { return in.present() && model[in].name == parameter; });
  };
  for (const Node& node : model.nodes)
    for (const auto& [parameter, group] : std::map<std::string, int>{{"layer.1.down.bias", 0}, {"layer.2.norm1", 1}, {"head", 1}})
      EXPECT_EQ(reads(node, parameter) ? groups.at(node.origin[0]) : group, group) << parameter;
  EXPECT_EQ(groups.at(model.nodes.back().origin[0]), 1);
  EXPECT_EQ(value_backwards(blocks(8), {groups.begin(), groups.end()}), "");
  const auto in = [](const char* stages) {
    std::string all;
    for (const auto& [name, group] : groups_of({"", seven, 3, "pipeline=3", stages})) all += std::to_string(group);
    return all;
  };
  EXPECT_EQ(in("layer.[0-2];layer.[3-4];rest"), "0001122");
  EXPECT_EQ(in("layer.0;rest;layer.6"), "0111112");
  EXPECT_EQ(in("layer.[0-1];layer.3;layer.5"), "0001122") << "others follow their operands";
  EXPECT_EQ(in("layer.0,layer.1;layer.2,layer.3;rest"), "0011222");
}

TEST(Stages, MistakesAreNamed) {
  const auto refused = [](const Ways& row, const std::string& message) { expect_refused(row.model, staged(row), message); };
  refused({"", seven, 2, "pipeline=2", "layr.0;rest"},
          "option stage 'layr.0': model 'seven' has no node, module or parameter of such a name, did you mean 'layer.0'?");
  refused({"", seven, 2, "pipeline=2", "layer.[4-6];layer.[0-3]"}, "node 'layer.4' is in part 0, and reads what 'layer.3' of part 1 makes");
  refused({"", seven, 3, "pipeline=3", "layer.0;rest"}, "option stage has 2 parts, option parallel pipeline=3 has 3");
  refused({"", seven, 2, "data=2", "layer.0;rest"},
          "option stage says what the stages of a pipeline have: expected option parallel pipeline=2");
  refused({"", seven, 2, "pipeline=2", "", "interleaved=4"}, "8 parts of a pipeline, and the model can be cut into 7 at most");
  refused({"", seven, 2, "data=2", "", "interleaved=2"}, "option schedule interleaved=2 is of a pipeline");
  refused({"", seven, 3, "pipeline=2"}, "data=1,tensor=1,pipeline=2 on 3 devices");
  CompileOptions placed = staged({"", seven, 2, "pipeline=2"});
  placed.parallel.places = {{.pattern = "layer.0", .devices = {0}}};
  expect_refused(seven, placed, "option place does not go with option parallel data=1,tensor=1,pipeline=2");
  CompileOptions uneven = staged({"", seven, 2, "pipeline=2"});
  uneven.devices[1].weight = 0;
  expect_refused(seven, uneven, "the devices of stage 1 (cpu:1) have no share of the work");
}

// A further plan that trains, of fewer samples, has the nodes in their parts again, not where their parameters are.
TEST(Stages, OfAShortBatchHaveAllTheirParts) {
  const Backend* backends[] = {&cpu_backend()};
  for (auto* const model : {blocks, tied_blocks}) {
    CompileOptions o = staged({"", model, 2, "pipeline=2", "", "interleaved=2", 4});
    const Plan plan = compile(model, o, backends);
    o.batch = 4;
    o.parallel.micro_batches = 2;
    for (const DeviceProgram& p : compile(model, o, backends, &plan).programs) {
      std::set<int> chunks;
      for (const Step& s : p.steps)
        if (is_of_micro_batch(s.phase)) chunks.insert(s.chunk);
      EXPECT_EQ(chunks, (std::set<int>{0, 1}));
    }
  }
}

TEST(Stages, FactorsAreThoseOfTheDevices) {
  const auto on = [](const char* text, std::size_t devices) { return to_string(resolved(parse_parallelism(text), devices)); };
  EXPECT_EQ(on("data=2,tensor=2,pipeline=*", 12), "data=2,tensor=2,pipeline=3");
  EXPECT_EQ(on("data=*,pipeline=2", 8), "data=4,tensor=1,pipeline=2");
  EXPECT_EQ(on("pipeline=*", 3), "data=1,tensor=1,pipeline=3");
  for (const char* text : {"pipeline=2", "data=2,pipeline=*,tensor=3", "pipeline=2147483647,data=2147483647,tensor=2147483647"})
    EXPECT_THROW(on(text, 4), Error) << text;
}

TEST(Stages, WaitAsTheyAreWarnedOf) {
  const auto warnings = [](CompileOptions o, Graph (*model)(std::int64_t)) {
    std::string all;
    for (const std::string& w : plan_of(model, o).warnings) all += w + "\n";
    return all;
  };
  EXPECT_NE(warnings(staged({"", seven, 2, "pipeline=2"}), seven)
                .find("2 equal stages with option micro_batches 1 wait 50% of a step; with 8 they would wait 11%"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem
