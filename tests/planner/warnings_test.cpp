#include "planner/warnings.h"

#include <gtest/gtest.h>

#include "graph/operator.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

struct Row {
  const char* name;
  std::vector<std::int64_t> slices;
  std::vector<double> weights;
  bool normalises = false, synchronised = false;
  PlanMode mode = PlanMode::training;
  std::vector<std::string> outputs = {"y"};
  std::vector<std::string> said = {};  // a part of each warning
  std::string loss = "mse";
  Shape output = {8};  // of each
  double sharing = 1;  // devices for a core
  Shape normalised = {8, 3, 4, 4};
  std::vector<float> variance = {};  // of a BatchNormalization in the model
  Parallelism parallel = {};
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class Warnings : public testing::TestWithParam<Row> {};

TEST_P(Warnings, SayWhatAUserShouldKnow) {
  const Row& row = GetParam();
  Plan plan{.mode = row.mode, .batch = 8, .loss = row.loss};
  for (std::size_t d = 0; d < row.slices.size(); ++d) {
    DeviceProgram device;
    if (row.normalises && row.slices[d] > 0) {
      device.buffers.push_back({.name = "x", .operand = {DType::float32, row.normalised, Layout::row_major(row.normalised.rank())}});
      device.steps.push_back({.what = LaunchStep{"BatchNormalizationTraining", {}, {}}, .inputs = {BufferId{0}}, .origin = {"bn1"}});
    }
    device.model.sharing = row.sharing;
    const ProgramId program = plan.programs.add(device);
    plan.devices.push_back({{"cpu", static_cast<int>(d)}, program, row.weights[d], 0, row.slices[d]});
  }
  Graph model;
  for (const std::string& name : row.outputs) {
    model.outputs.emplace_back(ValueId{static_cast<int>(model.values.size())});
    model.values.push_back({.name = name, .type = {DType::float32, row.output}, .depends_on_batch = true});
  }
  if (!row.variance.empty()) {
    const Tensor v = Tensor::of<float>(Shape{static_cast<std::int64_t>(row.variance.size())}, row.variance);
    model.values.push_back({.name = "variance", .type = v.type(), .kind = ValueKind::parameter, .data = v});
    Node node{.op = find_operator("BatchNormalization"), .name = "bn1", .attributes = {}, .inputs = {}, .outputs = {}, .origin = {}};
    node.inputs.assign(5, ValueId{static_cast<int>(model.values.size()) - 1});
    model.nodes.push_back(std::move(node));
  }
  CompileOptions options;
  options.synchronize_batch_norm = row.synchronised;
  options.loss.name = row.loss;
  options.parallel = row.parallel;
  plan.micro_batches = row.parallel.micro_batches;
  const std::vector<std::string> warnings = warnings_of(plan, options, model);
  ASSERT_EQ(warnings.size(), row.said.size()) << testing::PrintToString(warnings);
  for (std::size_t i = 0; i < warnings.size(); ++i) EXPECT_NE(warnings[i].find(row.said[i]), std::string::npos) << warnings[i];
}

// clang-format off
const Row rows[] = {
    {.name = "nothing to say", .slices = {4, 4}, .weights = {1, 1}},
    {.name = "a batch too small", .slices = {1, 1, 0}, .weights = {1, 1, 1}, .said = {"no samples for cpu:2"}},
    {.name = "a weight of 0 is meant", .slices = {8, 0}, .weights = {1, 0}},
    {.name = "more devices than cores", .slices = {2, 2, 2, 2}, .weights = {1, 1, 1, 1}, .said = {"4 devices take turns on 2 cores: a step is estimated to take 2 times"}, .sharing = 2},
    {.name = "statistics of each device", .slices = {6, 2}, .weights = {3, 1}, .normalises = true, .said = {"(2 at the least, of a batch of 8)"}},
    {.name = "statistics of all devices", .slices = {4, 4}, .weights = {1, 1}, .normalises = true, .synchronised = true},
    {.name = "statistics of one busy device", .slices = {8, 0}, .weights = {1, 0}, .normalises = true},
    {.name = "statistics of each micro-batch", .slices = {2}, .weights = {1}, .normalises = true, .said = {"each micro-batch of 2 samples by itself: 4 of them"}, .parallel = {.micro_batches = 4}},
    {.name = "stages of one device", .slices = {8}, .weights = {1}, .said = {"option parallel is left out: there is one device, cpu:0"}, .parallel = {.pipeline = 2}},
    {.name = "statistics of one sample", .slices = {1}, .weights = {1}, .normalises = true, .said = {"BatchNormalization 'bn1' takes its statistics from one sample"}, .normalised = {1, 3, 4, 4}},
    {.name = "statistics of one value", .slices = {1}, .weights = {1}, .normalises = true, .said = {"BatchNormalization 'bn1' has one value a channel"}, .normalised = {1, 3}},
    {.name = "a variance of zero", .slices = {8}, .weights = {1}, .mode = PlanMode::inference, .said = {"BatchNormalization 'bn1' has a variance of zero"}, .variance = {0, 0}},
    {.name = "a negative variance", .slices = {8}, .weights = {1}, .said = {"BatchNormalization 'bn1' has a negative variance"}, .variance = {1, -1}},
    {.name = "a channel that is dead", .slices = {8}, .weights = {1}, .variance = {1, 0}},
    {.name = "several outputs", .slices = {8}, .weights = {1}, .outputs = {"scores", "boxes"}, .said = {"first output 'scores'; not of 'boxes'"}},
    {.name = "several outputs of inference", .slices = {8}, .weights = {1}, .mode = PlanMode::inference, .outputs = {"scores", "boxes"}},
    {.name = "a loss of each sample", .slices = {8}, .weights = {1}, .loss = "output", .output = {8, 1}},
    {.name = "one loss", .slices = {8}, .weights = {1}, .loss = "output", .output = {}},
    {.name = "scores for a loss", .slices = {8}, .weights = {1}, .said = {"first output 'y' is taken for its loss, but has 10 numbers a sample"}, .loss = "output", .output = {8, 10}},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Rows, Warnings, testing::ValuesIn(rows));

// A plan of an evaluation lacks most of the kernels: it says nothing of names that are meant for the training's.
TEST(WithoutKernels, SayWhichNamesFitNone) {
  CompileOptions o;
  o.batch = 8;
  o.devices = {{{"cpu", 0}}};
  o.loss.name = "softmax-cross-entropy";
  o.tuning.without = {"onednn", "onednn.mtamul"};
  const Backend* const backends[] = {&cpu_backend()};
  const auto graph = [](std::int64_t n) { return small_models::mlp(n); };
  const Plan training = compile(graph, o, backends);
  EXPECT_EQ(training.warnings, (std::vector<std::string>{
                                   "option without_kernels: no kernel that this model could take has a name that begins with 'onednn.mtamul'"}));
  o.mode = PlanMode::inference;
  EXPECT_TRUE(compile(graph, o, backends, &training).warnings.empty());
}

}  // namespace
}  // namespace tandem
