// Runs that are resumed with another end, or beside a plan that is not theirs.
#include "planner/plan/plan_file.h"
#include "tests/trainer/model_runs.h"

namespace tandem::model_tests {
namespace {

struct Extended {
  const char* schedule;
  bool told;  // its rates go by the run's end
};
void PrintTo(const Extended& row, std::ostream* out) { *out << row.schedule; }

class ExtendedRunOf : public testing::TestWithParam<Extended> {};
INSTANTIATE_TEST_SUITE_P(Schedules, ExtendedRunOf,
                         testing::Values(Extended{"cosine", true}, Extended{"linear", true}, Extended{"polynomial", true}, Extended{"onecycle", true}, Extended{"exponential", false},
                                         Extended{"restarts,every=1", false}),
                         [](const auto& row) {
                           std::string name = row.param.schedule;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
                           return name;
                         });

// A schedule that has come to its end begins again where the run goes on: whoever extends it is told from which rate to which.
TEST_P(ExtendedRunOf, SaysThatItsRateJumps) {
  const Splits data = digits("synthetic:digits,train=20,test=10");
  const TemporaryFolder folder;
  std::vector<std::string> told;
  const auto run = [&](std::int64_t epochs, bool resume) {
    FitOptions fit{.epochs = epochs, .schedule = parse_schedule(GetParam().schedule), .run_dir = folder / "run", .resume = resume};
    fit.callbacks.on_warning = [&](const std::string& text) { told.push_back(text); };
    train(options(10), fit, *data.train);
  };
  run(2, false);
  run(2, true);  // the same end
  EXPECT_TRUE(told.empty());
  run(3, true);
  ASSERT_EQ(told.size(), GetParam().told ? 1U : 0U);
  if (GetParam().told) {
    EXPECT_NE(told[0].find("now ends after 6 steps, before it ended after 4: step 5 goes on at a rate of "), std::string::npos) << told[0];
  }
}

TEST(ExtendedRun, OfARunThatWasStoppedIsToldToo) {
  const Splits data = digits("synthetic:digits,train=40,test=10");
  const TemporaryFolder folder;
  FitOptions fit{.epochs = 2, .schedule = parse_schedule("cosine"), .run_dir = folder / "run"};
  std::int64_t steps = 0;
  fit.callbacks.on_step = [&](const StepReport&) { ++steps; };
  fit.callbacks.stop = [&] { return steps == 5; };
  train(options(10), fit, *data.train);
  std::vector<std::string> told;
  FitOptions longer{.epochs = 3, .schedule = parse_schedule("cosine"), .run_dir = folder / "run", .resume = true};
  longer.callbacks.on_warning = [&](const std::string& text) { told.push_back(text); };
  train(options(10), longer, *data.train);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_NE(told[0].find("now ends after 12 steps, before it ended after 8: step 6"), std::string::npos) << told[0];
}

std::filesystem::path only_plan(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> plans;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) plans.push_back(entry.path());
  EXPECT_EQ(plans.size(), 1U);
  return plans.at(0);
}

// A plan that is whole, and that a device would run, is still not this model's.
TEST(KeptPlan, ThatIsNotTheModelsIsRefused) {
  const TemporaryFolder folder;
  ModelOptions o = options(10);
  o.plans = folder / "plans";
  compiled("mlp", o);
  const std::filesystem::path file = only_plan(o.plans);
  const std::string own = read_file(file);
  o.resume = true;
  EXPECT_FALSE(compiled("mlp", o).plan().devices.empty());  // as it was made

  Plan other = parse_plan(own);
  bool changed = false;  // a number of a step, which no rule of plans knows
  for (Step& step : other.program_of(0).steps)
    if (!changed && step.op() == "SgdUpdate") {
      step.as<LaunchStep>()->attributes.set("momentum", 0.5F);
      changed = true;
    }
  ASSERT_TRUE(changed);
  write_atomically(file, serialize(other));
  expect_error(ExitCode::model, "is not the plan that was made from this model for these devices and options: it was changed",
               [&] { compiled("mlp", o); });

  ModelOptions lenet = options(10);  // another model's, whole
  lenet.plans = folder / "others";
  compiled("lenet", lenet);
  write_atomically(file, read_file(only_plan(lenet.plans)));
  expect_error(ExitCode::model, file.string() + ": is not the plan", [&] { compiled("mlp", o); });

  other = parse_plan(own);  // as earlier versions wrote them
  other.made_from = 0;
  write_atomically(file, serialize(other));
  expect_error(ExitCode::model, "it does not say what it was made from", [&] { compiled("mlp", o); });
}

}  // namespace
}  // namespace tandem::model_tests
