// By which of an epoch's numbers the best is told, and which way.
#include "tests/trainer/temporary_folder.h"
#include "trainer/records/best_measure.h"

namespace tandem {
namespace {

EpochReport report() {
  EpochReport e{.loss = 3, .accuracy = 0.5, .val_loss = 4};
  e.metrics = {{"val_f1", 0.25}, {"val_rmse", 2}, {"a_loss", 5}, {"val_a_f1", 0.125}, {"val_own", 7}};
  return e;
}

TEST(BestMeasure, KnowsWhichWayIsBetter) {
  const std::pair<const char*, double> rows[] = {{"", -4},     {"loss", -4},   {"accuracy", 0.5}, {"f1", 0.25},   {"val_f1", 0.25},
                                                 {"rmse", -2}, {"a_loss", -5}, {"a_f1", 0.125},   {"max:own", 7}, {"min:val_own", -7}};
  for (const auto& [name, score] : rows) EXPECT_EQ(BestMeasure(name).score(report()), score) << name;
  EXPECT_TRUE(std::isnan(BestMeasure("top5").score(report())));
  expect_error(ExitCode::usage, "say min:own or max:own", [] { BestMeasure("own"); });
}

}  // namespace
}  // namespace tandem
