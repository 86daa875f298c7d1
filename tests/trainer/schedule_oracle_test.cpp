// Schedules give the rates of PyTorch's lr_scheduler (schedule_oracle.py).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <sstream>

#include "base/file.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/schedule.h"

namespace tandem {
namespace {

constexpr double base = 0.5;
struct Row {
  const char* schedule;
  int steps;
  double per_epoch;     // steps of an epoch
  const char* python;   // makes s, whose step() is called after each step
};
const Row rows[] = {
    {"constant", 5, 1, "s = L.ConstantLR(o, factor=1)"},
    {"step,every=3,factor=0.5", 12, 1, "s = L.StepLR(o, 3, gamma=0.5)"},
    {"StepLR,every=1.5,factor=0.5", 12, 2, "s = L.StepLR(o, 3, gamma=0.5)"},
    {"multistep,at=2+5,factor=0.1", 9, 1, "s = L.MultiStepLR(o, [2, 5])"},
    {"exponential,factor=0.9", 9, 1, "s = L.ExponentialLR(o, 0.9)"},
    {"polynomial,power=3", 11, 1, "s = L.PolynomialLR(o, total_iters=10, power=3)"},
    {"linear,final=0.2", 11, 4, "s = L.LinearLR(o, start_factor=1, end_factor=0.2, total_iters=10)"},
    {"cosine", 11, 4, "s = L.CosineAnnealingLR(o, T_max=10)"},
    {"torch.optim.lr_scheduler.CosineAnnealingLR,final=0.1", 11, 4, "s = L.CosineAnnealingLR(o, T_max=10, eta_min=0.05)"},
    {"restarts,every=4", 13, 1, "s = L.CosineAnnealingWarmRestarts(o, 4)"},
    {"restarts,every=2,multiply=2,final=0.1", 31, 1, "s = L.CosineAnnealingWarmRestarts(o, 2, T_mult=2, eta_min=0.05)"},
    {"onecycle", 20, 7, "s = L.OneCycleLR(o, 0.5, total_steps=21)"},
    {"onecycle,peak=0.5,start=10,end=100", 30, 7, "s = L.OneCycleLR(o, 0.5, total_steps=31, pct_start=0.5, div_factor=10, final_div_factor=100)"},
};

std::vector<std::vector<double>> theirs(const std::string& lines, bool& missing) {
  const TemporaryFolder folder;
  const std::string log = (folder / "log").string();
  const int status = std::system(concat(std::getenv("TANDEM_PYTHON"), ' ', TANDEM_SOURCE_DIR, "/tests/trainer/schedule_oracle.py ",
                                        folder.write("lines", lines), " >", log, " 2>&1")
                                     .c_str());
  missing = WIFEXITED(status) && WEXITSTATUS(status) == 3;
  if (!missing) EXPECT_EQ(status, 0) << read_file(log);
  std::vector<std::vector<double>> all;
  std::istringstream text(read_file(log));
  for (std::string line; std::getline(text, line);) {
    std::istringstream numbers(line);
    all.emplace_back(std::istream_iterator<double>(numbers), std::istream_iterator<double>());
  }
  return all;
}

constexpr const char* no_python = "TANDEM_PYTHON does not name a Python with torch (./run-tests makes one)";

TEST(ScheduleOracle, RatesAreThoseOfPyTorch) {
  if (!std::getenv("TANDEM_PYTHON")) GTEST_SKIP() << no_python;
  std::string lines;
  for (const Row& row : rows) lines += concat(row.steps, '\t', row.python, '\n');
  bool missing = false;
  const auto rates = theirs(lines, missing);
  if (missing) GTEST_SKIP() << no_python;
  ASSERT_EQ(rates.size(), std::size(rows));
  for (std::size_t r = 0; r < std::size(rows); ++r) {
    // PyTorch's OneCycleLR counts one step more than it gives rates for.
    const std::int64_t steps = std::string(rows[r].schedule).starts_with("onecycle") ? rows[r].steps + 1 : rows[r].steps;
    const Schedule s = parse_schedule(rows[r].schedule);
    for (int step = 0; step < rows[r].steps; ++step)
      EXPECT_NEAR(learning_rate(s, base, step, steps, rows[r].per_epoch), rates[r][static_cast<std::size_t>(step)], 1e-9)
          << rows[r].schedule << " at " << step;
  }
}

TEST(ScheduleOracle, PlateauFollowsTheMeasureAsPyTorchDoes) {
  if (!std::getenv("TANDEM_PYTHON")) GTEST_SKIP() << no_python;
  const std::vector<double> measures{3, 2, 2, 2, 2, 1.9, 1.89999, 1.9, 1.9, 1.9, 1.9, 1.9, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.9};
  std::string list;
  for (const double m : measures) list += concat(list.empty() ? "" : ", ", m);
  bool missing = false;
  const auto rates = theirs(
      concat(measures.size(), "\tmeasures = [", list, "]; s = L.ReduceLROnPlateau(o, patience=2, factor=0.5, cooldown=1, min_lr=0.1)\n"),
      missing);
  if (missing) GTEST_SKIP() << no_python;
  const Schedule s = parse_schedule("ReduceLROnPlateau,patience=2,factor=0.5,cooldown=1,least=0.1");
  Waiting waiting;
  for (std::size_t e = 0; e < measures.size(); ++e) {
    EXPECT_NEAR(base * waiting.factor, rates.at(0).at(e), 1e-12) << "epoch " << e;
    follow_measure(s, base, measures[e], waiting);
  }
  EXPECT_LT(waiting.factor, 0.3);
}

TEST(Schedules, AnyMayStartWithAWarmUp) {
  const Schedule s = parse_schedule("exponential,factor=0.5,warmup=2");
  for (const auto& [step, rate] : {std::pair{0, 1.0 / 9}, {7, 8.0 / 9}, {8, 1.0}, {12, 0.5}})
    EXPECT_NEAR(learning_rate(s, 1, step, 100, 4), rate, 1e-12) << step;
}

TEST(Schedules, RefuseWhatIsNone) {
  for (const auto& [text, said] : {std::pair{"multistep", "needs at=EPOCHS"},
                                   {"multistep,at=5+2", "in order"},
                                   {"onecycle,peak=2", "share of the run"},
                                   {"plateau,every=3", "has no option 'every'"}})
    expect_error(ExitCode::usage, said, [&, t = text] { parse_schedule(t); });
}

}  // namespace
}  // namespace tandem
