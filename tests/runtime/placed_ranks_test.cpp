// Plans whose devices do different things, run by several ranks (threads of this process, each with its World and Session): they leave
// what one process leaves.
#include <gtest/gtest.h>

#include <thread>

#include "planner/place/parallel.h"
#include "tests/planner/small_models.h"
#include "tests/ranks/address.h"

namespace tandem {
namespace {

using namespace small_models;

const Part half = Part::split(0), whole;

struct Row {
  const char* name;
  int ranks;
  std::size_t devices;
  PlacementRequest placement;
  const char *parallel = nullptr, *optimizer = "sgd";  // in place of a placement
};
std::ostream& operator<<(std::ostream& out, const Row& row) {
  return out << row.name;
}

// mlp's first layer by columns, its second by rows.
PlacementRequest columns(std::vector<std::int64_t> sizes) {
  std::vector<int> devices;
  for (int d = 0; d < static_cast<int>(sizes.size()); ++d) devices.push_back(d);
  return {.groups = {{"all", {{"columns", std::move(sizes)}}, devices}},
          .nodes = {},
          .values = {{"w1", {half}}, {"b1", {half}}, {"w2", {half}}}};
}
PlacementRequest mesh(std::vector<int> devices) {
  return {.groups = {{"all", {{"samples", {2, 1}}, {"columns", {1, 1}}}, std::move(devices)}},
          .nodes = {},
          .values = {{"x", {half, whole}}, {"w1", {whole, half}}, {"b1", {whole, half}}, {"w2", {whole, half}}}};
}
PlacementRequest stages(int first, int second) {
  return {.groups = {{"first", {}, {first}}, {"second", {}, {second}}}, .nodes = {{"Gemm0", 0}, {"Relu1", 0}, {"Gemm2", 1}}, .values = {}};
}
// Each stage by its samples on two devices.
PlacementRequest stages_by_samples(std::vector<int> first, std::vector<int> second) {
  const std::vector<MeshAxis> axes{{"data", {2, 1}}};
  return {.groups = {{"first", axes, std::move(first)}, {"second", axes, std::move(second)}},
          .nodes = {{"Gemm0", 0}, {"Relu1", 0}, {"Gemm2", 1}},
          .values = {{"x", {half}}}};
}

class PlacedRanks : public testing::TestWithParam<Row> {};

TEST_P(PlacedRanks, TrainAsOneProcess) {
  constexpr int steps = 5;
  constexpr double rate = 0.1, timeout = 60;
  const Row& row = GetParam();
  CompileOptions o = options_for(6, std::vector<double>(row.devices, 1));
  if (row.parallel)
    o.parallel = parse_parallelism(row.parallel);
  else
    o.placement = row.placement;
  o.optimizer = optimizer_defaults(row.optimizer);
  const Backend* backends[] = {&cpu_backend()};
  const Plan plan = compile(mlp, o, backends);
  const Trained want = train_by(plan, cpu_backend(), mlp, steps, rate);
  ASSERT_NE(want.losses.back(), want.losses.front());

  const test::RankAddress address;
  std::vector<Trained> got(static_cast<std::size_t>(row.ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < row.ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        World world({.rank = r, .ranks = row.ranks, .address = address.text(), .timeout_seconds = timeout});
        got[static_cast<std::size_t>(r)] = train_by(plan, cpu_backend(), mlp, steps, rate, &world);
        world.leave();
      } catch (const Error& e) {
        ADD_FAILURE() << "rank " << r << ": " << e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  for (const Trained& rank : got) {
    EXPECT_EQ(rank.losses, want.losses) << "every rank has the losses of all, bit for bit";
    ASSERT_EQ(rank.replicas.size(), row.devices / static_cast<std::size_t>(row.ranks));
    for (const auto& replica : rank.replicas) expect_same_bits(replica, want.replicas[0]);
    for (const auto& state : rank.states) expect_same_bits(state, want.states[0]);
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, PlacedRanks,
                         testing::Values(Row{"columns", 2, 2, columns({1, 1})}, Row{"unequal_columns", 2, 2, columns({3, 1})},
                                         Row{"columns_of_four", 4, 4, columns({1, 1, 1, 1})}, Row{"stages", 2, 2, stages(0, 1)},
                                         Row{"stages_backwards", 2, 2, stages(1, 0)}, Row{"stages_by_samples", 2, 4, stages_by_samples({0, 2}, {1, 3})},
                                         Row{"stages_of_four_ranks", 4, 4, stages_by_samples({3, 2}, {1, 0})}, Row{"mesh", 4, 4, mesh({0, 1, 2, 3})},
                                         Row{"mesh_of_columns_first", 4, 4, mesh({0, 2, 1, 3})},
                                         Row{"mesh_of_two_ranks", 2, 4, mesh({0, 1, 2, 3})},
                                         Row{"mesh_across_two_ranks", 2, 4, mesh({0, 2, 1, 3})},
                                         Row{"layers_and_states", 2, 4, {}, "data=2,tensor=2,zero=3", "adamw"},
                                         Row{"layers_and_states_of_four_ranks", 4, 4, {}, "data=2,tensor=2,zero=1", "adamw"},
                                         Row{"owners", 2, 2, {}, "zero=1", "lamb"}, Row{"owners_of_four_ranks", 4, 4, {}, "zero=3", "lars"}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem
