// What devices that share a model hold while it is evaluated and asked for predictions, against what its plans say.
#include "planner/place/parallel.h"
#include "tests/trainer/model_runs.h"

namespace tandem::model_tests {
namespace {

struct Row {
  const char *name, *parallel;
  PlanMode mode = PlanMode::inference;
};
class PlacedMemory : public testing::TestWithParam<Row> {};

// Short batches at the end have plans of their own, which take no more.
TEST_P(PlacedMemory, IsWhatPlansSay) {
  const Row& row = GetParam();
  ModelOptions o = options(48, "cpu:0-1");
  o.plan.parallel = parse_parallelism(row.parallel);
  o.plan.optimizer = optimizer_defaults("adamw");
  Model model = compiled("lenet", options(48));
  o.plan.mode = row.mode;
  o.init = row.mode == PlanMode::training ? "he-normal" : "keep";
  const TemporaryFolder folder;
  model.save(folder / "model.onnx");
  Model placed = Model::load(folder / "model.onnx");
  placed.compile(o, backends);
  EXPECT_EQ(placed.allocated_bytes(), placed.predicted_peak_bytes());
  const Splits data = digits();
  placed.evaluate(*data.test);
  EXPECT_EQ(placed.allocated_bytes(), placed.predicted_peak_bytes()) << "evaluated";
  placed.predict(*data.test);
  EXPECT_EQ(placed.allocated_bytes(), placed.predicted_peak_bytes()) << "predicted";
}
INSTANTIATE_TEST_SUITE_P(Rows, PlacedMemory,
                         testing::Values(Row{"data", "data=2"}, Row{"tensor", "tensor=2"}, Row{"zero", "zero=3"},
                                         Row{"zero_of_training", "zero=3", PlanMode::training},
                                         Row{"tensor_of_training", "tensor=2", PlanMode::training}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem::model_tests
