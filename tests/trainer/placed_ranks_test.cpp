// A model whose parameters lie in parts on several ranks (threads of this process, each with its World): what it learns, keeps and
// writes is what one process does.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "tests/ranks/address.h"
#include "tests/trainer/model_runs.h"

namespace tandem::model_tests {
namespace {

struct Row {
  const char* name;
  int ranks;
  std::string devices;
  PlacementRequest placement;
  bool measured = true;  // by validation
};
std::ostream& operator<<(std::ostream& out, const Row& row) {
  return out << row.name;
}

const Part rows = Part::split(0), columns = Part::split(1);

PlacementRequest layer_by_columns(std::vector<std::int64_t> sizes) {
  std::vector<int> devices;
  for (int d = 0; d < static_cast<int>(sizes.size()); ++d) devices.push_back(d);
  return {.groups = {{"all", {{"columns", std::move(sizes)}}, devices}},
          .nodes = {},
          .values = {{"fc2.weight", {rows}}, {"fc2.bias", {rows}}, {"fc3.weight", {columns}}}};
}
PlacementRequest stages() {
  return {.groups = {{"first", {}, {0}}, {"second", {}, {1}}},
          .nodes = {{"flatten", 0}, {"fc1", 0}, {"relu1", 0}, {"fc2", 1}, {"relu2", 1}, {"fc3", 1}},
          .values = {}};
}

// Two epochs, and two more from the last checkpoint; then rank 0 writes the averages of the weights as a model.
std::vector<double> run(const Row& row, const std::filesystem::path& folder, World* world) {
  std::vector<double> losses;
  const Splits data = digits("synthetic:digits,train=96,test=40");
  for (const int epochs : {2, 4}) {
    ModelOptions o = options(32, row.devices);
    o.plan.placement = row.placement;
    o.plan.optimizer.average = true;
    o.world = world;
    Model model = compiled("mlp", o);
    FitOptions fit{
        .epochs = epochs, .validation = row.measured ? data.test.get() : nullptr, .run_dir = folder / "run", .resume = epochs == 4};
    fit.learning_rate = 0.02;
    fit.averaging.ema = 0.9;
    for (const EpochReport& e : model.fit(*data.train, fit).epochs) losses.insert(losses.end(), {e.loss, row.measured ? e.val_loss : 0});
    model.swap_averages();
    model.gather_parameters();
    if (!world || world->rank() == 0) model.save(folder / "trained.onnx", false, {});
  }
  return losses;
}

class PlacedModelOnRanks : public testing::TestWithParam<Row> {};

TEST_P(PlacedModelOnRanks, IsKeptAndWrittenByTheFirstRank) {
  const Row& row = GetParam();
  const TemporaryFolder one, several;
  const std::vector<double> want = run(row, one.text(), nullptr);
  ASSERT_EQ(want.size(), 2U * (2 + 4));
  ASSERT_LT(want[10], want[0]);
  const test::RankAddress address;
  std::vector<std::vector<double>> got(static_cast<std::size_t>(row.ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < row.ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        World world({.rank = r, .ranks = row.ranks, .address = address.text(), .timeout_seconds = 60});
        got[static_cast<std::size_t>(r)] = run(row, several.text(), &world);
        world.leave();
      } catch (const Error& e) {
        ADD_FAILURE() << "rank " << r << ": " << e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  for (const std::vector<double>& losses : got) EXPECT_EQ(losses, want);
  EXPECT_EQ(read_file(several / "trained.onnx"), read_file(one / "trained.onnx"));
  const Checkpoint a = read_checkpoint(several / "run/last.checkpoint"), b = read_checkpoint(one / "run/last.checkpoint");
  for (const auto& [kept, wanted] : {std::pair(a.weights, b.weights), std::pair(a.optimizer, b.optimizer)}) {
    ASSERT_EQ(kept.size(), wanted.size());
    for (std::size_t i = 0; i < kept.size(); ++i)
      EXPECT_TRUE(kept[i].name == wanted[i].name && std::ranges::equal(kept[i].tensor.bytes(), wanted[i].tensor.bytes())) << kept[i].name;
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, PlacedModelOnRanks,
                         testing::Values(Row{"columns", 2, "cpu:0-1", layer_by_columns({3, 1}), false},
                                         Row{"columns_of_four", 2, "cpu:0-3", layer_by_columns({1, 1, 1, 1}), false},
                                         Row{"stages", 2, "cpu:0-1", stages()}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem::model_tests
