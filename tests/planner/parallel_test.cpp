// Devices that share layers, and states: what is split, that it trains as one device does, and what is refused.
#include "planner/place/parallel.h"

#include <gtest/gtest.h>

#include <set>

#include "planner/place/choose_parts.h"
#include "planner/plan/plan_file.h"
#include "tests/planner/placed_plans.h"
#include "tests/planner/shared_transformer.h"

namespace tandem {
namespace {

using namespace small_models;

TEST(Parallel, FactorsAreThoseOfTheDevices) {
  const auto on = [](const char* text, std::size_t devices) { return to_string(resolved(parse_parallelism(text), devices)); };
  EXPECT_EQ(on("", 4), "data=4,tensor=1");
  EXPECT_EQ(on("data=*,tensor=2", 6), "data=3,tensor=2");
  EXPECT_EQ(on("data=2,tensor=*", 6), "data=2,tensor=3");
  for (const auto& [text, devices] :
       std::vector<std::pair<const char*, std::size_t>>{{"tensor=2", 4}, {"data=*,tensor=4", 6}, {"data=4", 2}, {"data=3,tensor=*", 2}})
    EXPECT_THROW(on(text, devices), Error) << text;
}

std::multiset<std::string> kinds_of(const Plan& plan) {
  std::multiset<std::string> kinds;
  for (const Exchange& e : plan.exchanges) kinds.emplace(name_of(e.kind));
  return kinds;
}

TEST(Parallel, LayersAreSplitFromColumnsToRows) {
  EXPECT_EQ(split_of(plan_of(mlp, shared_by(2, "tensor=2"))), (std::set<std::string>{"w1:0", "b1:0", "w2:0"}));
  const Plan plan = plan_of(transformer, shared_by(2, "tensor=2"));
  EXPECT_EQ(split_of(plan), (std::set<std::string>{"q:1", "q.bias:0", "k:1", "v:1", "v.bias:0", "proj:0", "up:1", "up.bias:0", "down:0"}));
  // Two sums forward and two backward, as in Megatron-LM.
  EXPECT_EQ(kinds_of(plan), (std::multiset<std::string>{"all_reduce", "all_reduce", "all_reduce", "all_reduce"}))
      << text_of_plan(plan, true);
  ASSERT_FALSE(plan.warnings.empty());
  EXPECT_NE(plan.warnings.back().find("'head'"), std::string::npos) << plan.warnings.back();
}

// A weight whose first axis has fewer places than there are replicas.
Graph narrow(std::int64_t n) {
  Builder b;
  b.graph.name = "narrow";
  const ValueId x = b.graph.add_input("x", {DType::float32, {n, 40}});
  b.graph.outputs = {gemm(b, b.node("Relu", {gemm(b, x, "first", 40, 3, false)}), "second", 3, 8)};
  return b.graph;
}

// Its gradient is summed into parts along another axis: it is whole on no device, and the devices share a program.
TEST(Parallel, GradientsAreSummedIntoPartsOfAnyAxis) {
  const CompileOptions o = shared_by(4, "zero=1");
  const Plan plan = plan_of(narrow, o);
  EXPECT_TRUE(split_of(plan).contains("first:1")) << text_of_plan(plan, true);
  EXPECT_FALSE(kinds_of(plan).contains("all_reduce")) << text_of_plan(plan, true);
  EXPECT_EQ(plan.programs.size(), 1U);
  expect_close(train(narrow, o, 4, 0.1), train(narrow, options_for(8, {1}), 4, 0.1));
}

// Each replica's part of a layer is shared out over the replicas.
TEST(Parallel, PartsOfLayersLieInPartsToo) {
  const Plan plan = plan_of(transformer, shared_by(4, "data=2,tensor=2,zero=3"));
  EXPECT_EQ(split_of(plan), (std::set<std::string>{"q:1:1", "q.bias:0:0", "k:1:1", "v:1:1", "v.bias:0:0", "proj:0:1", "up:1:1",
                                                   "up.bias:0:0", "down:0:1", "proj.bias:0", "down.bias:0", "norm1:0", "norm1.bias:0",
                                                   "norm2:0", "norm2.bias:0", "head:1", "head.bias:0"}));
  const auto bytes = [](const Plan& of) {
    std::int64_t sum = 0;
    for (const PlanParameter& p : of.parameters) sum += p.parts[0].operand.shape.elements();
    return sum;
  };
  EXPECT_LT(bytes(plan), bytes(plan_of(transformer, shared_by(4, "data=2,tensor=2"))) * 6 / 10);
}

TEST(Parallel, WhatHasNoEqualPartsStaysWhole) {
  EXPECT_TRUE(split_of(plan_of(transformer, shared_by(8, "tensor=8"))).contains("up:1")) << "16 columns";
  EXPECT_FALSE(split_of(plan_of(transformer, shared_by(8, "tensor=8"))).contains("q:1")) << "4 heads";
  EXPECT_TRUE(split_of(plan_of(grouped, shared_by(2, "tensor=2"))).contains("k:1")) << "2 key heads";
  EXPECT_FALSE(split_of(plan_of(grouped, shared_by(4, "tensor=4"))).contains("q:1")) << "2 key heads";
  try {
    plan_of(mlp, shared_by(3, "tensor=3"));
    FAIL() << "32 columns over 3 devices";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_NE(std::string(e.what()).find("no layer of 'mlp' can be split over 3 devices"), std::string::npos) << e.what();
  }
}

struct Shared {
  const char* name;
  Graph (*model)(std::int64_t);
  std::size_t devices;
  const char* parallel;
};
class ParallelTraining : public testing::TestWithParam<Shared> {};
TEST_P(ParallelTraining, IsThatOfOneDevice) {
  const Shared& row = GetParam();
  for (const char* optimizer : {"sgd", "adamw"}) {
    CompileOptions one = options_for(8, {1}), many = shared_by(row.devices, row.parallel);
    for (CompileOptions* o : {&one, &many}) {
      o->optimizer = optimizer_defaults(optimizer);
      if (std::string_view(optimizer) == "sgd") o->optimizer.momentum = 0.9;
    }
    SCOPED_TRACE(optimizer);
    expect_close(train(row.model, many, 8, 0.02), train(row.model, one, 8, 0.02));
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, ParallelTraining,
                         testing::Values(Shared{"mlp_tensor", mlp, 2, "tensor=2"}, Shared{"mlp_tensor_4", mlp, 4, "tensor=4"}, Shared{"mlp_mesh", mlp, 4, "data=2,tensor=2"},
                                         Shared{"mlp_zero_1", mlp, 2, "zero=1"}, Shared{"mlp_zero_2_of_3", mlp, 3, "zero=2"}, Shared{"mlp_zero_3", mlp, 2, "zero=3"},
                                         Shared{"transformer_tensor", transformer, 2, "tensor=2"}, Shared{"transformer_tensor_4", transformer, 4, "tensor=4"},
                                         Shared{"transformer_mesh", transformer, 4, "data=2,tensor=2"}, Shared{"transformer_zero_1", transformer, 4, "zero=1"},
                                         Shared{"transformer_zero_3_of_3", transformer, 3, "zero=3"}, Shared{"transformer_mesh_zero", transformer, 4, "data=2,tensor=2,zero=2"},
                                         Shared{"transformer_mesh_zero_3", transformer, 4, "data=2,tensor=2,zero=3"}, Shared{"mlp_mesh_zero_1", mlp, 4, "data=2,tensor=2,zero=1"},
                                         Shared{"grouped_mesh_zero_of_3", grouped, 6, "data=3,tensor=2,zero=3"},
                                         Shared{"grouped_tensor", grouped, 2, "tensor=2"}, Shared{"grouped_mesh", grouped, 4, "data=2,tensor=2"}, Shared{"convnet_zero_3", convnet, 2, "zero=3"}, Shared{"convnet_zero_1_of_3", convnet, 3, "zero=1"}),
                         [](const auto& info) { return std::string(info.param.name); });

// The norm of all gradients is that of the parts together.
TEST(Parallel, GradientsInPartsAreClippedByTheNormOfAll) {
  for (const auto& [devices, parallel] : std::vector<std::pair<std::size_t, const char*>>{
           {2, "tensor=2"}, {2, "zero=1"}, {2, "zero=3"}, {4, "data=2,tensor=2,zero=2"}})
    for (const std::int64_t parts : {1, 2}) {
      SCOPED_TRACE(concat(parallel, ", micro-batches: ", parts));
      CompileOptions one = options_for(8, {1}), two = shared_by(devices, parallel);
      for (CompileOptions* o : {&one, &two}) {
        o->optimizer.clip_norm = 0.05;
        o->parallel.micro_batches = parts;
      }
      const Trained clipped = train(transformer, one, 6, 0.5);
      CompileOptions free = options_for(8, {1});
      EXPECT_NE(clipped.losses.back(), train(transformer, free, 6, 0.5).losses.back()) << "the limit does nothing";
      expect_close(train(transformer, two, 6, 0.5), clipped);
    }
}

TEST(Parallel, AStepIsSkippedByAllDevicesOrNone) {
  CompileOptions one = options_for(8, {1}), two = shared_by(2, "tensor=2");
  for (CompileOptions* o : {&one, &two}) o->loss.scaling = LossScaling{.start = 0x1p126, .interval = 2};  // overflows when it has grown
  const Trained alone = train(transformer, one, 12, 0.1), shared = train(transformer, two, 12, 0.1);
  EXPECT_FALSE(std::ranges::is_sorted(shared.scales)) << "no step is skipped";
  expect_close(shared, alone);
}

TEST(Parallel, StatesLieInPartsByStage) {
  const auto peak = [](const char* parallel) {
    CompileOptions o = shared_by(4, parallel);
    o.optimizer = optimizer_defaults("adamw");
    return plan_of(mlp, o).program_of(0);
  };
  const auto arena = [](const DeviceProgram& d, ArenaKind kind) { return std::ranges::find(d.arenas, kind, &Arena::kind)->bytes; };
  const DeviceProgram data = peak("data=4"), one = peak("zero=1"), three = peak("zero=3");
  EXPECT_LT(arena(one, ArenaKind::optimizer), arena(data, ArenaKind::optimizer) / 3);
  EXPECT_LT(arena(three, ArenaKind::parameters), arena(data, ArenaKind::parameters) / 3);
}

// Devices of one class share a program, and have a row of a table each.
struct Meshes {
  const char *name, *few, *many;  // on 4 and on 32 devices
};
void PrintTo(const Meshes& row, std::ostream* out) { *out << row.name; }
class PlansByClass : public testing::TestWithParam<Meshes> {};
TEST_P(PlansByClass, GrowWithClassesAndNotWithDevices) {
  const auto plan_on = [](std::size_t devices, const char* parallel) {
    CompileOptions o = shared_by(devices, parallel);
    o.batch = 64;
    return plan_of(transformer, o);
  };
  const Plan small = plan_on(4, GetParam().few), large = plan_on(32, GetParam().many);
  EXPECT_LE(large.programs.size(), 3U);
  EXPECT_LE(large.exchanges.size(), small.exchanges.size());
  EXPECT_LT(serialize(large).size(), serialize(small).size() * 11 / 10 + 28 * 64);
}
INSTANTIATE_TEST_SUITE_P(Rows, PlansByClass,
                         testing::Values(Meshes{"data", "data=4", "data=32"}, Meshes{"states_in_parts", "data=4,zero=1", "data=32,zero=1"}, Meshes{"layers", "data=2,tensor=2", "data=16,tensor=2"}),
                         [](const auto& info) { return std::string(info.param.name); });

// What no gradient is: sums of statistics over all samples, and of what all devices have to know of gradients in parts.
TEST(Parallel, SumsOfStatisticsAndNormsAreTransfers) {
  const auto told = [](Graph (*model)(std::int64_t), const CompileOptions& o) {
    std::vector<std::string> list;
    for (const PlanTransfer& t : plan_of(model, o).transfers)
      if (t.kind == ExchangeKind::all_reduce) list.push_back(concat(t.bytes, " along ", t.axis, " for ", t.node, ": ", t.reason));
    return list;
  };
  CompileOptions o = shared_by(2, "data=2");
  o.synchronize_batch_norm = true;
  const std::string statistics = "48 along data for BatchNormalization1: its statistics are of all samples";
  EXPECT_EQ(told(normalized, o), (std::vector<std::string>(4, statistics))) << "of mean and variance, in both directions";
  o = shared_by(2, "data=2,zero=1");
  o.optimizer.clip_norm = 1;
  EXPECT_EQ(told(mlp, o), (std::vector<std::string>{"4 along data for the optimizer: each device has parts of gradients"}));
}

struct Moved {
  const char *name, *parallel;
  std::vector<std::string> splits, wanted;  // "all_gather w1 along data for Gemm0: reason"
};
void PrintTo(const Moved& row, std::ostream* out) { *out << row.name; }
class ParallelTransfers : public testing::TestWithParam<Moved> {};
// Each has a reason, and only sums of gradients are not there.
TEST_P(ParallelTransfers, AreListedWithTheirReasons) {
  const Plan plan = plan_of(mlp, shared_by(2, GetParam().parallel, parse_splits(GetParam().splits)));
  std::vector<std::string> got;
  for (const PlanTransfer& t : plan.transfers)
    got.push_back(concat(name_of(t.kind), ' ', t.value, ' ', t.bytes, " along ", t.axis, " for ", t.node, ": ", t.reason));
  EXPECT_EQ(got, GetParam().wanted);
}
INSTANTIATE_TEST_SUITE_P(
    Rows, ParallelTransfers,
    testing::Values(Moved{"samples", "data=2", {}, {}},
                    Moved{"zero",
                          "zero=1",
                          {},
                          {"all_gather w1 2560 along data for Gemm0: parameters in parts are read whole",
                           "all_gather w2 640 along data for Gemm2: parameters in parts are read whole",
                           "all_gather b1 128 along data for Gemm0: parameters in parts are read whole",
                           "all_gather b2 20 along data for Gemm2: parameters in parts are read whole"}},
                    Moved{"tensor",
                          "tensor=2",
                          {},
                          {"all_reduce Gemm2 160 along tensor for loss/SoftmaxCrossEntropyTraining_2: one sum ends a split layer"}},
                    Moved{"columns",
                          "tensor=2",
                          {"w2=tensor:1", "b2=tensor:0"},
                          {"all_reduce grad/Relu1/ReluBackward_7 1024 along tensor for Gemm0: one sum ends a split layer",
                           "all_reduce Gemm2 96 along tensor for loss/SoftmaxCrossEntropyTraining_2: one sum ends a split layer",
                           "all_reduce Gemm2 32 along tensor for loss/SoftmaxCrossEntropyTraining_2: one sum ends a split layer",
                           "all_reduce first of Gemm2 32 along tensor for loss/CountCorrect_3: one sum ends a split layer"}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Parallel, WhatIsGatheredIsToldOrRefused) {
  CompileOptions o = shared_by(2, "tensor=2", parse_splits({"proj=tensor:1", "proj.bias=tensor:0"}));
  const Plan plan = plan_of(transformer, o);
  EXPECT_TRUE(std::ranges::any_of(plan.warnings, [](const std::string& w) { return w.find("gathers 768 B: ") != std::string::npos; }))
      << text_of_plan(plan, true);
  o.gather = false;
  try {
    plan_of(transformer, o);
    FAIL() << "what is normalized is gathered";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_NE(std::string(e.what()).find("gathers 768 B: "), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("option gather is off"), std::string::npos) << e.what();
  }
  o.parallel = parse_parallelism("tensor=2");
  EXPECT_NO_THROW(plan_of(mlp, o)) << "sums are no gathers";
}

TEST(Parallel, PlacementIsLogged) {
  std::vector<std::string> lines;
  CompileOptions o = shared_by(4, "data=2,tensor=2");
  o.passes.on_placement = [&](const std::string& line) { lines.push_back(line); };
  plan_of(mlp, o);
  const auto has = [&](const char* part) {
    return std::ranges::any_of(lines, [&](const std::string& line) { return line.find(part) != std::string::npos; });
  };
  for (const char* part : {"InnerProduct 'Gemm0' on cpu:0-3 data 2 x tensor 2: ", " data split(0), tensor split(1)",
                           "AllReduce 'sum/Gemm2' on cpu:0-3 data 2 x tensor 2: sum/Gemm2 data split(0), tensor broadcast; 160 B for 'loss/SoftmaxCrossEntropyTraining_2': one sum ends a split layer"})
    EXPECT_TRUE(has(part)) << part;
}

// What needs the norm of a parameter, or a product by it, updates it where it is whole: on one replica, each of which has its share.
TEST(Parallel, WholeParametersHaveOwners) {
  const auto optimizer = [](const char* name) {
    OptimizerOptions o = optimizer_defaults(name);
    if (std::string_view(name) == "sgd") o.clip_parameter_norm = 0.02;
    return o;
  };
  const auto trained = [&](CompileOptions o, const char* name) {
    o.optimizer = optimizer(name);
    Trained run = train(transformer, o, 8, 0.02);
    std::ranges::sort(run.replicas[0], {}, &NamedTensor::name);  // the first device's own come first
    return run;
  };
  for (const char* name : {"sgd", "lamb", "lars", "muon", "adafactor"}) {
    const Trained alone = trained(options_for(8, {1}), name);
    for (const auto& [devices, parallel] : std::vector<std::pair<std::size_t, const char*>>{{2, "zero=1"}, {3, "zero=3"}}) {
      SCOPED_TRACE(concat(name, ' ', parallel));
      const Trained shared = trained(shared_by(devices, parallel), name);
      expect_close(shared, alone);
      std::vector<std::int64_t> owned(devices);
      std::int64_t all = 0;
      for (const PlanParameter& p : shared.plan.parameters)
        if (const std::vector<ParameterPart> parts = shared.plan.parts_of(p); p.role == ValueRole::plain && parts.size() == 1) {
          owned[at(parts[0].device)] += p.type.shape.elements();
          all += p.type.shape.elements();
        }
      EXPECT_GT(all, 400);
      for (const std::int64_t elements : owned) EXPECT_LT(std::abs(elements - all / std::ssize(owned)), 64) << "of " << all;
      if (std::string_view(name) == "lamb") {
        CompileOptions layers = shared_by(4, "data=2,tensor=2,zero=1");
        layers.optimizer = optimizer(name);
        try {
          plan_of(transformer, layers);
          FAIL() << "a layer lies in parts";
        } catch (const Error& e) {
          EXPECT_NE(std::string(e.what()).find("optimizer lamb needs the norm of '"), std::string::npos) << e.what();
        }
      }
    }
  }
}

// Where one replica has all samples, the others have none to update parts by.
TEST(Parallel, OneReplicaThatWorksKeepsWholeParameters) {
  CompileOptions o = shared_by(3, "zero=1");
  o.devices[1].weight = o.devices[2].weight = 0;
  EXPECT_TRUE(split_of(plan_of(mlp, o)).empty());
  expect_close(train(mlp, o, 5, 0.1), train(mlp, options_for(8, {1}), 5, 0.1));
}

TEST(Parallel, SplitsThatAreSaid) {
  const Plan plan = plan_of(mlp, shared_by(2, "tensor=2", parse_splits({"w1=tensor:0", "b1=tensor:0"})));
  EXPECT_EQ(split_of(plan), (std::set<std::string>{"w1:0", "b1:0"}));
  const auto refused = [](const char* rule) -> std::string {
    try {
      plan_of(mlp, shared_by(2, "tensor=2", parse_splits({rule})));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage) << rule;
      return e.what();
    }
    ADD_FAILURE() << rule;
    return {};
  };
  EXPECT_NE(refused("w3=tensor:0").find("did you mean"), std::string::npos);
  EXPECT_NE(refused("w1=tensor:2").find("has no axis 2"), std::string::npos);
  EXPECT_NE(refused("w1=tensr:0").find("did you mean 'tensor'"), std::string::npos);
  EXPECT_NE(refused("w1").find("NAME=AXIS:DIMENSION"), std::string::npos);
  EXPECT_NE(refused("w1=tensor:x").find("x"), std::string::npos);
}

}  // namespace
}  // namespace tandem
