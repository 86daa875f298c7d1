// Models that were placed by hand, trained, validated, evaluated and asked for predictions.
#include "planner/place/parallel.h"
#include "tests/trainer/model_runs.h"

namespace tandem::model_tests {
namespace {

const Part split = Part::split(0), columns = Part::split(1), whole;

struct Row {
  const char* name;
  const char* model;
  const char* devices;
  PlacementRequest placement;
  const char *parallel = nullptr, *optimizer = "sgd";  // in place of a placement
  int weights_on = -1;
  std::int64_t micro_batches = 1;
};
class PlacedModel : public testing::TestWithParam<Row> {};

struct Measured {
  std::vector<double> losses;
  Evaluation validated;
  std::vector<NamedTensor> predicted, features;
};
// 200 samples in batches of 48: training and evaluation end in short batches.
Measured measured(const char* name, const ModelOptions& o, const std::vector<std::string>& features) {
  const Splits data = digits();
  Measured m;
  Model model = compiled(name, o);
  FitOptions fit{.epochs = 1, .learning_rate = 0.02, .validation = data.test.get(), .check_replicas = 1};
  fit.callbacks.on_step = [&](const StepReport& r) { m.losses.push_back(r.loss); };
  const History history = model.fit(*data.train, fit);
  m.losses.push_back(history.epochs[0].val_loss);
  m.validated = model.evaluate(*data.test);
  m.predicted = model.predict(*data.test);
  m.features = model.predict(*data.test, {.outputs = features});
  return m;
}

void expect_close(const std::vector<NamedTensor>& got, const std::vector<NamedTensor>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t t = 0; t < got.size(); ++t) {
    ASSERT_EQ(got[t].tensor.shape(), wanted[t].tensor.shape()) << got[t].name;
    const auto a = got[t].tensor.values<float>(), b = wanted[t].tensor.values<float>();
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-3F * (1 + std::fabs(b[i]))) << got[t].name << ' ' << i;
  }
}

TEST_P(PlacedModel, IsMeasuredAsOnOneDevice) {
  const Row& row = GetParam();
  ModelOptions alone = options(48), many = options(48, row.devices);
  if (row.parallel)
    many.plan.parallel = parse_parallelism(row.parallel);
  else
    many.plan.placement = row.placement;
  many.plan.parallel.weights_on = row.weights_on;
  many.plan.parallel.micro_batches = row.micro_batches;
  alone.plan.optimizer = many.plan.optimizer = optimizer_defaults(row.optimizer);
  const std::vector<std::string> features{"relu1"};
  const Measured one = measured(row.model, alone, features), got = measured(row.model, many, features);
  ASSERT_EQ(got.losses.size(), one.losses.size());
  for (std::size_t i = 0; i < one.losses.size(); ++i) EXPECT_NEAR(got.losses[i] / one.losses[i], 1, 1e-4) << "step " << i;
  EXPECT_NEAR(got.validated.loss / one.validated.loss, 1, 1e-4);
  EXPECT_EQ(got.validated.accuracy, one.validated.accuracy);
  expect_close(got.predicted, one.predicted);
  expect_close(got.features, one.features);
}

DeviceGroup mesh(std::vector<MeshAxis> axes, std::vector<int> devices, const char* name = "all") {
  return {name, std::move(axes), std::move(devices)};
}
using Values = decltype(PlacementRequest::values);
const Values columns_then_rows{{"fc1.weight", {split}}, {"fc1.bias", {split}}, {"fc2.weight", {columns}}};
const Values with_data{{"image", {split, whole}},        {"fc1.weight", {whole, split}}, {"fc1.bias", {whole, split}},
                       {"fc2.weight", {whole, columns}}, {"fc3.weight", {whole, split}}, {"fc3.bias", {whole, split}}};

INSTANTIATE_TEST_SUITE_P(
    Rows, PlacedModel,
    testing::Values(Row{"columns_then_rows", "mlp", "cpu:0-1", {.groups = {mesh({{"tensor", {1, 1}}}, {0, 1})}, .nodes = {}, .values = columns_then_rows}},
                    Row{"unequal", "mlp", "cpu:0-1", {.groups = {mesh({{"tensor", {3, 1}}}, {0, 1})}, .nodes = {}, .values = columns_then_rows}},
                    Row{"classes", "mlp", "cpu:0-1", {.groups = {mesh({{"tensor", {1, 1}}}, {0, 1})}, .nodes = {}, .values = {{"fc3.weight", {split}}, {"fc3.bias", {split}}}}},
                    Row{"samples_and_columns", "mlp", "cpu:0-3", {.groups = {mesh({{"data", {1, 1}}, {"tensor", {1, 1}}}, {0, 1, 2, 3})}, .nodes = {}, .values = with_data}},
                    Row{"behind_flatten", "lenet", "cpu:0-1", {.groups = {mesh({{"tensor", {1, 1}}}, {0, 1})}, .nodes = {}, .values = columns_then_rows}},
                    Row{"rows_behind_flatten", "lenet", "cpu:0-1", {.groups = {mesh({{"tensor", {1, 1}}}, {0, 1})}, .nodes = {}, .values = {{"fc1.weight", {columns}}}}},
                    Row{"stages", "mlp", "cpu:0-1", {.groups = {mesh({}, {0}, "first"), mesh({}, {1}, "second")}, .nodes = {{"fc1", 0}, {"fc2", 1}}, .values = {}}},
                    Row{"pooled_channels_alone", "lenet", "cpu:0-1", {.groups = {mesh({{"tensor", {1, 1}}}, {0, 1})}, .nodes = {}, .values = {{"conv2.weight", {split}}, {"conv2.bias", {split}}}}},
                    Row{"layers", "lenet", "cpu:0-1", {}, "tensor=2"},
                    Row{"layers_and_states", "lenet", "cpu:0-3", {}, "data=2,tensor=2,zero=3", "adamw"},
                    Row{"weights_on_the_first", "lenet", "cpu:0-2", {}, "data=3", "sgd", 0},
                    Row{"weights_on_the_last", "mlp", "cpu:0-1", {}, "data=2", "adamw", 1},
                    Row{"micro_batches", "lenet", "cpu", {}, "", "sgd", -1, 4},
                    Row{"micro_batches_of_replicas", "lenet", "cpu:0-1", {}, "zero=2", "adamw", -1, 4},
                    Row{"micro_batches_by_turns", "mlp", "cpu:0-1", {.groups = {mesh({}, {0}, "first"), mesh({}, {1}, "second")}, .nodes = {{"fc1", 0}, {"fc2", 1}}, .values = {}}, nullptr, "sgd", -1, 6},
                    Row{"pipeline", "lenet", "cpu:0-1", {}, "pipeline=2", "adamw"},
                    Row{"pipeline_of_replicas", "mlp", "cpu:0-3", {}, "data=2,pipeline=2,zero=1"},
                    Row{"owners", "mlp", "cpu:0-2", {}, "zero=1", "lamb"},
                    Row{"stages_of_samples", "mlp", "cpu:0-3", {.groups = {mesh({{"data", {1, 1}}}, {0, 1}, "first"), mesh({{"data", {1, 1}}}, {2, 3}, "second")}, .nodes = {{"fc1", 0}, {"fc2", 1}}, .values = {{"image", {split}}}}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem::model_tests
