// Sums on a GPU: of NCCL with one rank, queued and recorded (scripts/gpu-check starts more ranks), and of logical devices
// by our own kernel. Skipped where there is none.
#include <gtest/gtest.h>

#include <thread>

#include "tests/cuda/host_backend.h"
#include "tests/kernels/sum_over.h"

namespace tandem::cuda {
namespace {

struct Row {
  const char* name;
  int ranks;
  bool recorded;
};
constexpr Row rows[] = {{"nccl_with_one_rank", 1, false}, {"nccl_with_one_rank_recorded", 1, true}, {"four_logical_devices", 4, false}};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

float value(std::int64_t i, int rank) { return static_cast<float>(i % 97 + rank); }

// One rank: its buffer holds the sum after every run.
void sum_as(const Backend& backend, CollectiveGroup& group, int rank, const Row& row, std::int64_t elements, int channel) {
  const std::unique_ptr<Device> device = backend.open(0, {});
  device->activate();
  const std::unique_ptr<Stream> stream = device->create_stream(1);
  std::vector<float> values(static_cast<std::size_t>(elements)), sums(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value(static_cast<std::int64_t>(i), rank);
  const std::int64_t bytes = elements * 4;
  std::byte* const memory = device->allocate_summed(bytes);
  const std::unique_ptr<Kernel> kernel = group.make(tandem::test::sum_over(row.ranks, elements, DType::float32, channel), rank);
  kernel->bind({&memory, 1}, {&memory, 1}, nullptr);
  std::unique_ptr<CapturedGraph> graph;
  if (row.recorded) {
    device->begin_capture(*stream);
    stream->launch(*kernel);
    graph = device->end_capture(*stream);
  }
  for (int run = 0; run < 3; ++run) {
    group.begin_step(rank);
    stream->copy_in(memory, reinterpret_cast<const std::byte*>(values.data()), bytes);
    graph ? graph->launch(*stream) : stream->launch(*kernel);
    stream->copy_out(reinterpret_cast<std::byte*>(sums.data()), memory, bytes);
    stream->synchronize();
    group.end_step(rank);
    for (std::int64_t i = 0; i < elements; ++i) {
      float sum = 0;
      for (int r = 0; r < row.ranks; ++r) sum += value(i, r);
      ASSERT_EQ(sums[static_cast<std::size_t>(i)], sum) << "rank " << rank << ", element " << i << " of " << elements;
    }
  }
}

class GpuSums : public testing::TestWithParam<Row> {};

TEST_P(GpuSums, AreTheSameOnEveryRank) {
  std::string reason;
  const Backend* const backend = cuda_module(reason);
  if (!backend) GTEST_SKIP() << reason;
  if (!backend->unusable().empty()) GTEST_SKIP() << backend->unusable();
  const Row& row = GetParam();
  const auto group = backend->create_group({.devices = std::vector<int>(static_cast<std::size_t>(row.ranks), 0)});
  EXPECT_EQ(group->captures(), row.ranks == 1);
  int channel = 0;
  for (const std::int64_t elements : {std::int64_t{1}, std::int64_t{1001}, std::int64_t{1} << 20}) {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < row.ranks; ++rank)
      threads.emplace_back([&, rank] {
        try {
          sum_as(*backend, *group, rank, row, elements, channel);
        } catch (const std::exception& e) {
          ADD_FAILURE() << "rank " << rank << ": " << e.what();
          group->abort(e.what());
        }
      });
    threads.clear();
    ++channel;
  }
}
INSTANTIATE_TEST_SUITE_P(Ranks, GpuSums, testing::ValuesIn(rows), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::cuda
