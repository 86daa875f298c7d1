// Weights that live on one device: where they do, and that the numbers are those of data parallelism.
#include "tests/trainer/model_runs.h"
#include "trainer/devices.h"

namespace tandem::model_tests {
namespace {

struct Row {
  const char* name;
  const char* devices;
  const char* weights;  // slices
  const char* home;
  const char* optimizer;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class WeightsOn : public testing::TestWithParam<Row> {};

// 200 samples in batches of 48: the last batch is short.
TEST_P(WeightsOn, OneDeviceTrainAsOnEach) {
  const Row& row = GetParam();
  const Splits data = digits();
  const auto trained = [&](bool at_home) {
    ModelOptions o = options(48, row.devices);
    o.plan.devices = parse_devices(row.devices, row.weights);
    if (at_home) o.plan.parallel.weights_on = add_device(o.plan.devices, row.home);
    o.plan.optimizer = optimizer_defaults(row.optimizer);
    Model model = compiled("lenet", o);
    std::vector<double> losses;
    FitOptions fit{.epochs = 1, .learning_rate = 0.002, .validation = data.test.get(), .check_replicas = 1};
    fit.callbacks.on_step = [&](const StepReport& r) { losses.push_back(r.loss); };
    losses.push_back(model.fit(*data.train, fit).epochs[0].val_loss);
    if (at_home)
      for (const PlanParameter& p : model.plan().parameters)
        if (p.role == ValueRole::plain && p.trainable)
          for (std::size_t d = 0; d < o.plan.devices.size(); ++d)
            EXPECT_EQ(model.plan().part_of(p, static_cast<int>(d)).has_value(), static_cast<int>(d) == o.plan.parallel.weights_on)
                << p.name << " on " << d;
    return losses;
  };
  const std::vector<double> each = trained(false), home = trained(true);
  ASSERT_EQ(home.size(), each.size());
  for (std::size_t i = 0; i < each.size(); ++i) EXPECT_NEAR(home[i] / each[i], 1, 1e-5) << "step " << i;
}
INSTANTIATE_TEST_SUITE_P(Rows, WeightsOn,
                         testing::Values(Row{"the_first", "cpu:0-1", "", "cpu:0", "sgd"}, Row{"the_last", "cpu:0-2", "3,2,1", "cpu:2", "adamw"},
                                         Row{"a_device_of_its_own", "cpu:0-1", "", "cpu:2", "adamw"},
                                         Row{"a_device_beside_one", "cpu:0", "", "cpu:1", "adamw"}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::model_tests
