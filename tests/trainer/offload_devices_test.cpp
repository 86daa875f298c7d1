// Which devices are added where GPUs leave something to host memory, of one process and of several.
#include <gtest/gtest.h>

#include "trainer/devices.h"

namespace tandem {
namespace {

struct Row {
  const char* name;
  const char* devices;
  int ranks;
  bool optimizer, activations;
  const char* all;                  // then
  std::vector<int> activations_on;  // by device
  std::vector<int> homes;           // on which the weights live
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

class OffloadDevices : public testing::TestWithParam<Row> {};
TEST_P(OffloadDevices, AreAdded) {
  const Row& row = GetParam();
  CompileOptions plan;
  plan.devices = parse_devices(row.devices);
  plan.memory.most = {1000};
  const auto before = static_cast<std::int64_t>(plan.devices.size());
  if (row.optimizer) offload_optimizer(plan, row.ranks);
  if (row.activations) offload_activations(plan, row.ranks);
  EXPECT_EQ(to_string(plan.devices), row.all);
  EXPECT_EQ(plan.memory.activations_on, row.activations_on);
  std::vector<int> homes;
  for (int d = 0; d < static_cast<int>(plan.devices.size()); ++d)
    if (plan.parallel.has_weights(d)) homes.push_back(d);
  EXPECT_EQ(homes, row.homes);
  std::int64_t with_samples = 0;
  for (const DeviceSpec& d : plan.devices) with_samples += d.weight > 0;
  EXPECT_EQ(with_samples, before);
  const bool each = plan.memory.most.size() > 1;
  for (std::size_t d = 0; each && d < plan.devices.size(); ++d) {
    if (plan.parallel.has_weights(static_cast<int>(d))) continue;
    EXPECT_EQ(plan.memory.most[d], plan.devices[d].weight > 0 ? 1000 : 0) << d;
  }
}
INSTANTIATE_TEST_SUITE_P(
    Rows, OffloadDevices,
    testing::Values(Row{"activations", "cuda:0", 1, false, true, "cuda:0, cpu:0", {1, -1}, {}},
                    Row{"activations_of_two", "cuda:0-1", 1, false, true, "cuda:0, cuda:1, cpu:0, cpu:1", {2, 3, -1, -1}, {}},
                    Row{"not_of_a_cpu", "cuda:0,cpu:0", 1, false, true, "cuda:0, cpu:0, cpu:1", {2, -1, -1}, {}},
                    Row{"both", "cuda:0", 1, true, true, "cuda:0, cpu:0", {1, -1}, {1}},
                    Row{"both_of_two", "cuda:0-1", 1, true, true, "cuda:0, cuda:1, cpu:0, cpu:1", {2, 3, -1, -1}, {2}},
                    Row{"ranks", "cuda:0,cuda:0", 2, false, true, "cuda:0, cpu:1, cuda:0, cpu:0", {1, -1, 3, -1}, {}},
                    Row{"ranks_of_two",
                        "cuda:0-1,cuda:0-1",
                        2,
                        false,
                        true,
                        "cuda:0, cuda:1, cpu:2, cpu:3, cuda:0, cuda:1, cpu:0, cpu:1",
                        {2, 3, -1, -1, 6, 7, -1, -1},
                        {}},
                    Row{"optimizer_of_ranks", "cuda:0,cuda:0", 2, true, false, "cuda:0, cpu:0, cuda:0, cpu:1", {}, {1, 3}},
                    Row{"both_of_ranks", "cuda:0,cuda:0", 2, true, true, "cuda:0, cpu:0, cuda:0, cpu:1", {1, -1, 3, -1}, {1, 3}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(OffloadDevices, AsManyOfEachRank) {
  CompileOptions plan;
  plan.devices = parse_devices("cuda:0-1,cuda:0,cpu:0");
  try {
    offload_activations(plan, 2);
    ADD_FAILURE() << "taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_NE(std::string(e.what()).find("rank 0 has 2 devices that send activations, rank 1 has 1"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tandem
