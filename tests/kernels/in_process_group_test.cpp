#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <thread>

#include "kernels/collective.h"
#include "tests/kernels/sum_over.h"

namespace tandem {
namespace {

// Runs body(rank) in a thread for each rank; returns what each failed with, empty where it did not.
std::vector<std::string> on_ranks(int ranks, const std::function<void(int)>& body) {
  std::vector<std::string> failures(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        body(r);
      } catch (const Error& e) {
        failures[static_cast<std::size_t>(r)] = e.what();
      }
    });
  for (std::thread& t : threads) t.join();
  return failures;
}

std::unique_ptr<Kernel> bound(CollectiveGroup& group, int ranks, int rank, int channel, std::int64_t elements, DType dtype, void* buffer) {
  auto kernel = group.make(test::sum_over(ranks, elements, dtype, channel), rank);
  std::byte* const memory = static_cast<std::byte*>(buffer);
  kernel->bind({&memory, 1}, {&memory, 1}, nullptr);
  return kernel;
}

struct Row {
  int ranks;
  std::int64_t elements;
};
class InProcessGroup : public testing::TestWithParam<Row> {};

template <class T>
void expect_sums(const Row& row) {
  const auto group = in_process_group(row.ranks, 30);
  std::mt19937 random(static_cast<unsigned>(row.elements));
  std::vector<std::vector<T>> values(static_cast<std::size_t>(row.ranks),
                                     std::vector<T>(static_cast<std::size_t>(row.elements) + 1, T(42)));
  for (auto& v : values)
    for (std::int64_t i = 0; i < row.elements; ++i)
      v[static_cast<std::size_t>(i)] = static_cast<T>(std::uniform_real_distribution<double>(-1, 1)(random));
  std::vector<T> want(values[0].begin(), values[0].end());
  for (int round = 0; round < 3; ++round) {
    want.assign(values[0].begin(), values[0].end());
    for (int r = 1; r < row.ranks; ++r)
      for (std::int64_t i = 0; i < row.elements; ++i)
        want[static_cast<std::size_t>(i)] += values[static_cast<std::size_t>(r)][static_cast<std::size_t>(i)];
    const auto failures = on_ranks(row.ranks, [&](int r) {
      bound(*group, row.ranks, r, round, row.elements, dtype_of<T>(), values[static_cast<std::size_t>(r)].data())->run({});
    });
    for (int r = 0; r < row.ranks; ++r) {
      EXPECT_EQ(failures[static_cast<std::size_t>(r)], "");
      EXPECT_EQ(values[static_cast<std::size_t>(r)], want)
          << "rank " << r << ", round " << round;  // bit for bit; the last element is not summed
    }
  }
}
TEST_P(InProcessGroup, SumsFloatsInRankOrder) {
  expect_sums<float>(GetParam());
}
TEST_P(InProcessGroup, SumsDoublesInRankOrder) {
  expect_sums<double>(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Rows, InProcessGroup,
                         testing::Values(Row{1, 10}, Row{2, 1}, Row{2, 64}, Row{3, 1000}, Row{4, 3}, Row{4, 100003}, Row{7, 4096}),
                         [](const auto& info) { return concat(info.param.ranks, "_ranks_", info.param.elements); });

TEST(InProcessGroup, NamesTheMissingRanks) {
  const auto group = in_process_group(3, 0.05);
  std::vector<float> values(3);
  const auto failures =
      on_ranks(2, [&](int r) { bound(*group, 3, r == 0 ? 0 : 2, 0, 1, DType::float32, &values[static_cast<std::size_t>(r)])->run({}); });
  for (const std::string& f : failures) EXPECT_EQ(f, "all_reduce: waited 0.05 s for rank 1");
}

TEST(InProcessGroup, AbortWakesThoseWhoWait) {
  const auto group = in_process_group(3, 0);
  std::vector<float> values(3);
  const auto failures = on_ranks(3, [&](int r) {
    if (r == 2) return group->abort("device 2 is on fire");
    bound(*group, 3, r, 0, 1, DType::float32, &values[static_cast<std::size_t>(r)])->run({});
  });
  EXPECT_EQ(failures, (std::vector<std::string>{"device 2 is on fire", "device 2 is on fire", ""}));
  group->abort("a later reason");
  EXPECT_EQ(on_ranks(1, [&](int) { bound(*group, 3, 2, 0, 1, DType::float32, &values[2])->run({}); })[0], "device 2 is on fire")
      << "it stays aborted, for the first reason";
}

TEST(InProcessGroup, RefusesCallsThatDiffer) {
  const auto group = in_process_group(2, 30);
  const auto first = group->make(test::sum_over(2, 2, DType::float32), 0);
  for (const ExchangeSpec& other : {test::sum_over(2, 3, DType::float32), test::sum_over(2, 2, DType::float64),
                                    ExchangeSpec{ExchangeKind::broadcast, {0, 1}, 2, DType::float32, {}, 0}}) {
    try {
      group->make(other, 1);
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_TRUE(std::string(e.what()).starts_with("rank 1 makes ")) << e.what();
      EXPECT_TRUE(std::string(e.what()).ends_with(", another rank all_reduce of 2 float32 among 2 ranks on channel 0")) << e.what();
    }
  }
}

}  // namespace
}  // namespace tandem
