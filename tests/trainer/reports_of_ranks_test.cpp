// Losses and metrics that cross between ranks once for many steps: nothing but the number of messages is another.
#include <gtest/gtest.h>

#include <thread>

#include "tests/ranks/address.h"
#include "tests/trainer/model_runs.h"

namespace tandem::model_tests {
namespace {

constexpr double at_once = 0, late = 1e9;  // FitOptions::report_seconds
constexpr std::int64_t epochs = 3, steps = 7;  // of an epoch, the last of fewer samples

struct RankRun {
  std::vector<StepReport> reports;
  std::vector<NamedTensor> parameters;
  History history;
  std::uint64_t messages = 0;  // in fit
  std::string failure;
};

FitOptions fit_options() { return {.epochs = epochs, .learning_rate = 0.02}; }

RankRun train_rank(int devices, FitOptions fit, World* world) {
  ModelOptions o = options(30, concat("cpu:0-", devices - 1));
  o.plan.tuning.autotune = false;
  o.world = world;
  RankRun run;
  fit.callbacks.on_step = [&](const StepReport& r) { run.reports.push_back(r); };
  Model model = compiled("mlp", o);
  const Splits data = digits();
  const std::uint64_t before = world ? world->messages() : 0;
  try {
    run.history = model.fit(*data.train, fit);
    run.messages = world ? world->messages() - before : 0;
    run.parameters = model.parameters();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::diverged);
    run.failure = e.what();
  }
  return run;
}

// By rank. Each has `devices`.
std::vector<RankRun> train_ranks(int ranks, int devices, Route sums, const std::function<FitOptions(int rank)>& fit) {
  const test::RankAddress address;
  std::vector<RankRun> runs(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      World world({.rank = r, .ranks = ranks, .address = address.text(), .timeout_seconds = 60, .sums = sums});
      runs[static_cast<std::size_t>(r)] = train_rank(ranks * devices, fit(r), &world);
      world.leave();
    });
  for (std::thread& t : threads) t.join();
  return runs;
}

void expect_same(const RankRun& got, const RankRun& want) {
  ASSERT_EQ(got.reports.size(), want.reports.size());
  for (std::size_t i = 0; i < got.reports.size(); ++i) {
    const StepReport &a = got.reports[i], &b = want.reports[i];
    EXPECT_EQ(std::tie(a.epoch, a.step, a.steps, a.samples, a.loss, a.accuracy, a.weights, a.learning_rate),
              std::tie(b.epoch, b.step, b.steps, b.samples, b.loss, b.accuracy, b.weights, b.learning_rate));
  }
  ASSERT_EQ(got.history.epochs.size(), want.history.epochs.size());
  for (std::size_t e = 0; e < got.history.epochs.size(); ++e) {
    EXPECT_EQ(got.history.epochs[e].loss, want.history.epochs[e].loss);
    EXPECT_EQ(got.history.epochs[e].accuracy, want.history.epochs[e].accuracy);
  }
  ASSERT_EQ(got.parameters.size(), want.parameters.size());
  for (std::size_t p = 0; p < got.parameters.size(); ++p)
    EXPECT_TRUE(std::ranges::equal(got.parameters[p].tensor.bytes(), want.parameters[p].tensor.bytes())) << got.parameters[p].name;
}

struct Row {
  const char* name;
  int ranks, devices = 1;
  Route sums;
  bool pairs = true;
};
std::ostream& operator<<(std::ostream& out, const Row& row) { return out << row.name; }
class RowsOfReports : public testing::TestWithParam<Row> {};

TEST_P(RowsOfReports, CrossAtTheEndsOfEpochsWithTheSameBits) {
  const Row& row = GetParam();
  const RankRun alone = train_rank(row.ranks * row.devices, fit_options(), nullptr);
  std::vector<RankRun> by_seconds[2];
  for (const double seconds : {at_once, late})
    by_seconds[seconds == late] = train_ranks(row.ranks, row.devices, row.sums, [&](int) {
      FitOptions fit = fit_options();
      fit.report_seconds = seconds;
      return fit;
    });
  for (int r = 0; r < row.ranks; ++r) {
    const RankRun &every = by_seconds[0][static_cast<std::size_t>(r)], &kept = by_seconds[1][static_cast<std::size_t>(r)];
    expect_same(every, alone);
    expect_same(kept, alone);
    // Kept they cross behind the first step and at the ends of epochs. The wish to stop goes with them; else it goes along the chain.
    const int neighbours = r == 0 || r == row.ranks - 1 ? 1 : 2;
    const std::int64_t fewer = epochs * steps - (1 + epochs), wishes = epochs * steps - 1;
    EXPECT_EQ(static_cast<std::int64_t>(every.messages - kept.messages),
              fewer * (row.pairs ? row.ranks - 1 : neighbours) + wishes * neighbours)
        << "rank " << r;
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, RowsOfReports,
                         testing::Values(Row{"three_by_pairs", 3, 1, Route::pairs}, Row{"three_along_the_chain", 3, 1, Route::chain, false},
                                         Row{"two", 2, 1, Route::chain, false}, Row{"two_of_two_by_pairs", 2, 2, Route::pairs}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ReportsOfRanks, ALostLossIsToldWithItsOwnStep) {
  std::vector<std::string> failures;
  for (const double seconds : {at_once, late})
    for (const RankRun& run : train_ranks(3, 1, Route::measured, [&](int) {
           FitOptions fit = fit_options();
           fit.learning_rate = 1e30;
           fit.report_seconds = seconds;
           return fit;
         }))
      failures.push_back(run.failure);
  EXPECT_TRUE(failures[0].starts_with("the loss is ")) << failures[0];
  for (const std::string& f : failures) EXPECT_EQ(f, failures[0]);
}

TEST(ReportsOfRanks, AWishOfOneStopsAllAtOneStep) {
  std::atomic<bool> wanted = false;  // of rank 1, from the second epoch on
  const std::vector<RankRun> runs = train_ranks(3, 1, Route::measured, [&](int rank) {
    FitOptions fit = fit_options();
    fit.report_seconds = late;
    if (rank == 1) {
      fit.callbacks.on_epoch = [&](const EpochReport&) { wanted = true; };
      fit.callbacks.stop = [&] { return wanted.load(); };
    }
    return fit;
  });
  for (const RankRun& run : runs) {
    EXPECT_TRUE(run.history.stopped);
    EXPECT_EQ(run.history.steps, steps);
  }
}

}  // namespace
}  // namespace tandem::model_tests
