// What somebody may ask of a placement: which splits share out a batch, in which group labels live, and what is refused.
#include "tests/planner/passed.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

using namespace small_models;

const Part split = Part::split(0), whole;

CompileOptions placed(std::size_t devices, PlacementRequest request) {
  CompileOptions o = options_for(6, std::vector<double>(devices, 1));
  o.placement = std::move(request);
  return o;
}
DeviceGroup group_of(std::string name, std::vector<MeshAxis> axes, int first, int count) {
  DeviceGroup group{.name = std::move(name), .axes = std::move(axes), .devices = {}};
  for (int d = 0; d < count; ++d) group.devices.push_back(first + d);
  return group;
}

// Its parameters' names stand behind its input's in the alphabet.
Graph named_last(std::int64_t n) {
  Builder b;
  b.graph.name = "named last";
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 20}});
  x = b.node("Relu", {b.node("Gemm", {x, b.weight("y1", {32, 20}, 0.3F), b.weight("yb", {32}, 0.1F)}, {{"transB", std::int64_t{1}}})});
  b.graph.outputs = {b.node("Gemm", {x, b.weight("z", {32, 5}, 0.3F), b.weight("b", {5}, 0.1F)})};
  return b.graph;
}

TEST(PlacementRequest, SplitsOfParametersShareOutNoSamples) {
  const PlacementRequest request{.groups = {group_of("all", {{"data", {2, 1}}, {"columns", {1, 1}}}, 0, 4)},
                                 .nodes = {},
                                 .values = {{"x", {split, whole}}, {"y1", {whole, split}}, {"yb", {whole, split}}, {"z", {whole, split}}}};
  const Trained one = train(named_last, options_for(6, {1}), 5, 0.1), four = train(named_last, placed(4, request), 5, 0.1);
  expect_close(four, one);
  for (const auto& [device, begin, size] : {std::tuple{0, 0, 4}, {1, 0, 4}, {2, 4, 2}, {3, 4, 2}}) {
    EXPECT_EQ(four.plan.devices[at(device)].slice_begin, begin) << device;
    EXPECT_EQ(four.plan.devices[at(device)].slice_size, size) << device;
  }
}

TEST(PlacementRequest, ABatchThatDoesNotDivideIsSharedOutAsNearAsItCan) {
  CompileOptions o = options_for(7, {1, 1});
  o.placement = PlacementRequest{.groups = {group_of("all", {{"data", {1, 1}}}, 0, 2)}, .nodes = {}, .values = {{"x", {split}}}};
  const Trained two = train(mlp, o, 3, 0.1);
  expect_close(two, train(mlp, options_for(7, {1}), 3, 0.1));
  EXPECT_EQ(two.plan.devices[1].slice_size, 3);
}

// An input that is cut, but not by its samples.
TEST(PlacementRequest, AnInputByItsColumns) {
  const Part columns = Part::split(1);
  const PlacementRequest request{
      .groups = {group_of("all", {{"columns", {1, 1}}}, 0, 2)}, .nodes = {}, .values = {{"x", {columns}}, {"w1", {columns}}}};
  const Trained two = train(mlp, placed(2, request), 5, 0.1);
  expect_close(two, train(mlp, options_for(6, {1}), 5, 0.1));
  EXPECT_EQ(two.plan.devices[1].slice_size, 6);
}

// What is dropped goes by the samples: devices along another mesh axis drop the same.
Graph dropping(std::int64_t n) {
  Builder b;
  b.graph.name = "dropping";
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 20}});
  x = b.node("Relu", {gemm(b, x, "w1", 20, 32)});
  x = b.node("Dropout", {gemm(b, x, "w2", 32, 16)}, {{"ratio", 0.5F}});
  b.graph.outputs = {gemm(b, x, "w3", 16, 5)};
  return b.graph;
}
TEST(PlacementRequest, DevicesThatHaveTheSameSamplesDropTheSame) {
  const PlacementRequest request{.groups = {group_of("all", {{"data", {2, 1}}, {"columns", {1, 1}}}, 0, 4)},
                                 .nodes = {},
                                 .values = {{"x", {split, whole}}, {"w1", {whole, split}}, {"w1b", {whole, split}}}};
  expect_close(train(dropping, placed(4, request), 5, 0.1), train(dropping, options_for(6, {1}), 5, 0.1));
}

// Two stages, each of devices that share out the samples. Labels go to the second, and what is made of them alone.
struct Stages {
  const char* name;
  std::vector<std::int64_t> sizes;
  double smoothing = 0;
  bool weighted = false;
};
class StagesOfSamples : public testing::TestWithParam<Stages> {};
TEST_P(StagesOfSamples, TrainAsOneDevice) {
  const int count = static_cast<int>(GetParam().sizes.size());
  const std::vector<MeshAxis> axes{{"data", GetParam().sizes}};
  CompileOptions one = options_for(6, {1}),
                 many = placed(2 * at(count), {.groups = {group_of("first", axes, 0, count), group_of("second", axes, count, count)},
                                               .nodes = {{"Gemm0", 0}, {"Relu1", 0}, {"Gemm2", 1}},
                                               .values = {{"x", {split}}}});
  for (CompileOptions* o : {&one, &many}) {
    o->loss.smoothing = GetParam().smoothing;
    if (GetParam().weighted) o->loss.class_weights = {1, 2, 3, 4, 5};
  }
  const Trained got = train(mlp, many, 5, 0.1);
  expect_close(got, train(mlp, one, 5, 0.1));
  for (std::size_t d = 0; d < got.plan.devices.size(); ++d)
    for (const Step& s : got.plan.program_of(d).steps)
      if (const auto* slice = s.as<SliceStep>(); slice && got.plan.inputs[at(slice->host)].role == ValueRole::label) {
        EXPECT_GE(static_cast<int>(d), count) << "labels in the first stage";
      }
}
INSTANTIATE_TEST_SUITE_P(Rows, StagesOfSamples, testing::Values(Stages{"even", {1, 1}}, Stages{"uneven", {2, 1}}, Stages{"one_idle", {2, 1, 0}}, Stages{"smoothed", {2, 1}, 0.1}, Stages{"classes_weighted", {2, 1}, 0, true}),
                         [](const auto& row) { return std::string(row.param.name); });

// A parameter that no placed node reads lives where it is read: nothing but hidden units and their gradient moves.
Graph scaled_behind(std::int64_t n) {
  Builder b;
  b.graph.name = "scaled behind";
  ValueId x = gemm(b, b.graph.add_input("x", {DType::float32, {n, 20}}), "in", 20, 32);
  x = b.node("Mul", {gemm(b, x, "out", 32, 5), b.weight("scale", {5}, 0.5F)});
  b.graph.outputs = {x};
  return b.graph;
}
TEST(PlacementRequest, AParameterThatNobodyHasPlacedLivesWhereItIsRead) {
  const Trained got = train(
      scaled_behind,
      placed(2, {.groups = {group_of("first", {}, 0, 1), group_of("second", {}, 1, 1)}, .nodes = {{"in", 0}, {"out", 1}}, .values = {}}), 5,
      0.1);
  expect_close(got, train(scaled_behind, options_for(6, {1}), 5, 0.1));
  EXPECT_EQ(got.plan.exchanges.size(), 2U);
}

// Every kernel is timed for each device apart, and the times differ: what two devices compute alike is by one kernel all the same.
TEST(PlacementRequest, WhatDevicesComputeAlikeIsByOneKernel) {
  AskedCpu cpu;
  std::mt19937 random(1);
  cpu.seconds = [&](const KernelDescription&) { return 1e-6 * (1 + static_cast<double>(random() % 100)); };
  const Backend* backends[] = {&cpu};
  CompileOptions o =
      placed(2, {.groups = {group_of("all", {{"columns", {1, 1}}}, 0, 2)}, .nodes = {}, .values = {{"w1", {split}}, {"w1b", {split}}}});
  o.tuning.autotune = true;
  const Plan plan = compile(dropping, o, backends);
  const auto kernels = [&](int device) {
    std::vector<std::string> list;
    for (const Step& s : plan.program_of(at(device)).steps)
      if (const auto* launch = s.as<LaunchStep>(); launch && launch->op != "Reorder" && launch->op != "Slice" && launch->op != "Fill")
        list.push_back(concat(launch->op, ' ', launch->kernel));
    return list;
  };
  EXPECT_EQ(kernels(0), kernels(1));
}

// Each device keeps and updates a part of the parameters, though all train on samples of their own.
struct Kept {
  const char* name;
  std::vector<std::int64_t> sizes;  // of the samples
  std::vector<std::int64_t> parts;  // of w1's 32 rows
};
class ParametersAlongTheSamples : public testing::TestWithParam<Kept> {};
TEST_P(ParametersAlongTheSamples, TrainAsOneDevice) {
  const std::size_t count = GetParam().sizes.size();
  const PlacementRequest request{.groups = {group_of("all", {{"data", GetParam().sizes}}, 0, static_cast<int>(count))},
                                 .nodes = {},
                                 .values = {{"x", {split}}, {"w1", {split}}, {"b1", {split}}, {"w2", {Part::split(1)}}, {"b2", {split}}}};
  const Trained many = train(mlp, placed(count, request), 5, 0.1);
  expect_close(many, train(mlp, options_for(6, {1}), 5, 0.1));
  for (const PlanParameter& p : many.plan.parameters) {
    std::int64_t elements = 0;
    for (const ParameterPart& part : many.plan.parts_of(p)) elements += part.operand.shape.elements();
    EXPECT_EQ(elements, p.type.shape.elements()) << p.name;
    if (p.name != "w1") continue;
    for (const ParameterPart& part : many.plan.parts_of(p)) EXPECT_EQ(part.operand.shape[0], GetParam().parts[at(part.device)]);
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, ParametersAlongTheSamples,
                         testing::Values(Kept{"even", {3, 3}, {16, 16}}, Kept{"uneven", {4, 2}, {21, 11}}, Kept{"three", {2, 2, 2}, {11, 11, 10}}, Kept{"one_idle", {2, 1, 0}, {21, 11, 0}}),
                         [](const auto& row) { return std::string(row.param.name); });

// Neither 5 classes nor 32 units divide by three.
TEST(PlacementRequest, PartsOfWhatDoesNotDivideAreNearlyEqual) {
  const PlacementRequest request{.groups = {group_of("all", {{"columns", {1, 1, 1}}}, 0, 3)},
                                 .nodes = {},
                                 .values = {{"w1", {split}}, {"b1", {split}}, {"w2", {split}}}};
  const Trained three = train(mlp, placed(3, request), 5, 0.1);
  expect_close(three, train(mlp, options_for(6, {1}), 5, 0.1));
  const PlacementRequest classes{.groups = request.groups, .nodes = {}, .values = {{"w2", {Part::split(1)}}, {"b2", {split}}}};
  expect_close(train(mlp, placed(3, classes), 5, 0.1), train(mlp, options_for(6, {1}), 5, 0.1));
}

// In sizes of their own; a device without samples may keep parameters.
TEST(PlacementRequest, PartsInSizesOfTheirOwn) {
  for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{1, 3, 4}, {1, 1, 2}})
    for (const PlacementRequest& request :
         {PlacementRequest{.groups = {group_of("all", {{"columns", {1, 1, 1}}}, 0, 3)}, .nodes = {}, .values = {}},
          PlacementRequest{.groups = {group_of("all", {{"data", {2, 1, 0}}}, 0, 3)}, .nodes = {}, .values = {{"x", {split}}}}}) {
      CompileOptions three = placed(3, request);
      three.placement->values["w1"] = {{Spread::split, 0, 1, sizes}};
      expect_close(train(mlp, three, 5, 0.1), train(mlp, options_for(6, {1}), 5, 0.1));
    }
}

Graph of_two_inputs(std::int64_t n) {
  Builder b;
  b.graph.name = "two inputs";
  const ValueId x = b.graph.add_input("x", {DType::float32, {n, 20}}), mask = b.graph.add_input("mask", {DType::float32, {n, 20}});
  b.graph.outputs = {gemm(b, b.node("Mul", {x, mask}), "w", 20, 5)};
  return b.graph;
}

struct Refused {
  const char* name;
  PlacementRequest request;
  const char* message;
  Graph (*model)(std::int64_t) = mlp;
};
const std::vector<DeviceGroup> pair{group_of("all", {{"data", {1, 1}}}, 0, 2)};
const std::vector<DeviceGroup> two_groups{group_of("first", {}, 0, 1), group_of("second", {}, 1, 1)};
class RefusedPlacement : public testing::TestWithParam<Refused> {};
TEST_P(RefusedPlacement, SaysWhy) {
  const Backend* backends[] = {&cpu_backend()};
  expect_error(GetParam().message, [&] { compile(GetParam().model, placed(2, GetParam().request), backends); });
}
INSTANTIATE_TEST_SUITE_P(
    Rows, RefusedPlacement,
    testing::Values(
        Refused{"a_node", {.groups = two_groups, .nodes = {{"Gem2", 1}}, .values = {}}, "placement: model 'mlp' has no node 'Gem2', did you mean 'Gemm2'?"},
        Refused{"a_value", {.groups = pair, .nodes = {}, .values = {{"x", {split}}, {"wl", {split}}}}, "placement: model 'mlp' has no input, parameter or output 'wl', did you mean 'w1'?"},
        Refused{"a_group", {.groups = two_groups, .nodes = {{"Gemm2", 2}}, .values = {}}, "placement: node 'Gemm2' is in group 2, there are 2"},
        Refused{"an_axis", {.groups = pair, .nodes = {}, .values = {{"w1", {Part::split(2)}}}}, "placement: 'w1' of [32,20] is to be split(2): it has no such axis"},
        Refused{"a_mesh_axis", {.groups = pair, .nodes = {}, .values = {{"w1", {whole, split}}}}, "placement: 'w1' is placed along 2 mesh axes, there are 1"},
        Refused{"inputs_that_disagree", {.groups = pair, .nodes = {}, .values = {{"x", {split}}}}, "placement: inputs 'x' and 'mask' hold samples, and one of them alone is split by these along mesh axis 0: expected both or none", of_two_inputs},
        Refused{"rows_outside", {.groups = pair, .nodes = {}, .values = {{"x", {Part::split(0, 2)}}}}, "placement: input 'x' is to be split(0, 2 outside): its samples are its rows, expected split(0)"},
        Refused{"no_group", {.groups = {}, .nodes = {}, .values = {}}, "placement: there is no group of devices"},
        Refused{"no_mesh", {.groups = {group_of("all", {{"data", {1, 1, 1}}}, 0, 2)}, .nodes = {}, .values = {}}, "placement: group 'all' has 2 devices, its mesh has places for 3"},
        Refused{"a_device", {.groups = {group_of("all", {{"data", {1, 1}}}, 1, 2)}, .nodes = {}, .values = {}}, "placement: group 'all' has device 2, the plan has 2"},
        Refused{"a_device_twice", {.groups = {{"all", {{"data", {1, 1}}}, {0, 0}}}, .nodes = {}, .values = {}}, "placement: device 0 stands in more than one place"},
        Refused{"a_device_nowhere", {.groups = {group_of("first", {}, 0, 1)}, .nodes = {}, .values = {}}, "placement: device 1 stands in no group"},
        Refused{"nothing_of_a_layer", {.groups = pair, .nodes = {}, .values = {{"w2", {{Spread::split, 0, 1, {1, 0}}}}}}, "placement: 'w2' of [5,32] is split(1 as 1:0) along mesh axis 'data', where a device would have nothing of it"},
        Refused{"other_sizes", {.groups = pair, .nodes = {}, .values = {{"w2", {{Spread::split, 0, 1, {1, 1, 1}}}}}}, "placement: 'w2' is to be split(0 as 1:1:1) along mesh axis 'data' of 2 devices: expected a size of 0 or more for each, not all 0"},
        Refused{"no_sizes", {.groups = {group_of("all", {{"data", {0, 0}}}, 0, 2)}, .nodes = {}, .values = {}}, "placement: group 'all': the sizes of mesh axis 'data' have to be 0 or more, and not all 0"}),
    [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace tandem
