// The group that sums by NCCL, over a stand-in for it: ranks as threads with a world of their own, as processes have.
// What it does in trouble is seen here alone: on a GPU, one cannot ask NCCL to fail.
#include "kernels/cuda/collectives/nccl_group.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "ranks/world.h"
#include "tests/cuda/nccl/stand_in.h"
#include "tests/kernels/sum_over.h"
#include "tests/ranks/address.h"

namespace tandem::cuda {
namespace {

using namespace test;

constexpr double long_time = 60, short_time = 0.5;
constexpr std::int64_t elements = 100;

// One rank's all-reduce of a step, queued or recorded; waits for its end as the device's stream does.
class RankStep {
 public:
  RankStep(CollectiveGroup& group, int ranks, int rank, bool recorded)
      : group_(group), rank_(rank), recorded_(recorded), kernel_(group.make(test::sum_over(ranks, elements, DType::float32), rank)) {
    std::byte* const memory = reinterpret_cast<std::byte*>(buffer_.data());
    kernel_->bind({&memory, 1}, {&memory, 1}, nullptr);
    if (!recorded_) return;
    stream_.captures = true;
    try {
      kernel_->run({&stream_});
    } catch (...) {  // a capture that fails leaves no graph
      nccl::destroy_graph(rank_);
      throw;
    }
    stream_.captures = false;
  }
  ~RankStep() {
    if (recorded_) nccl::destroy_graph(rank_);
  }
  RankStep(const RankStep&) = delete;
  RankStep& operator=(const RankStep&) = delete;
  void run() {
    group_.begin_step(rank_);
    if (recorded_)
      nccl::replay(rank_);
    else
      kernel_->run({&stream_});
    while (!nccl::ended(rank_) && !nccl::summed(stream_)) std::this_thread::yield();
    group_.end_step(rank_);
  }

 private:
  CollectiveGroup& group_;
  const int rank_;
  const bool recorded_;
  std::vector<float> buffer_ = std::vector<float>(elements);
  CUstream_st stream_;
  std::unique_ptr<Kernel> kernel_;
};

using Body = std::function<void(World&, CollectiveGroup&)>;

// Runs body in a thread for each rank; what each failed with, empty where it did not.
std::vector<std::string> on_ranks(int ranks, double timeout, const Body& body) {
  nccl::reset();
  const RankAddress address;
  std::vector<std::string> failures(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        World world({.rank = r, .ranks = ranks, .address = address.text(), .timeout_seconds = timeout});
        const auto group = nccl_group({.devices = {0}, .first_rank = r, .ranks = ranks, .world = &world, .timeout_seconds = timeout});
        body(world, *group);
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ExitCode::communication);
        failures[static_cast<std::size_t>(r)] = e.what();
      }
    });
  threads.clear();
  EXPECT_EQ(nccl::misuses(), 0) << "NCCL was called with a communicator that was gone or busy";
  EXPECT_EQ(nccl::stuck(), 0) << "an abort waited for a graph that the same thread would destroy";
  return failures;
}

TEST(NcclGroup, RanksOfOneIdSumAndLeave) {
  for (const bool recorded : {false, true}) {
    constexpr int ranks = 3, steps = 4;
    const auto failures = on_ranks(ranks, long_time, [&](World& world, CollectiveGroup& group) {
      EXPECT_TRUE(group.captures());
      RankStep step(group, world.ranks(), world.rank(), recorded);
      for (int i = 0; i < steps; ++i) step.run();
      world.leave();
    });
    EXPECT_EQ(failures, std::vector<std::string>(ranks, ""));
    for (int r = 0; r < ranks; ++r) {
      EXPECT_EQ(nccl::communicator(r).id, nccl::communicator(0).id);
      EXPECT_EQ(nccl::communicator(r).ranks, ranks);
      EXPECT_EQ(nccl::communicator(r).queued, steps);
      EXPECT_EQ(nccl::communicator(r).end, ncclComm::destroyed);
    }
  }
}

struct Trouble {
  const char* name;
  bool recorded;  // the others' sums
  std::function<void(World&, CollectiveGroup&)> rank_1;
  const char* told;  // by every rank
};
void PrintTo(const Trouble& t, std::ostream* out) { *out << t.name; }

void wait_for_the_end(World& world, CollectiveGroup& group) {
  while (!nccl::ended(world.rank())) std::this_thread::yield();
  group.begin_step(world.rank());  // fails
}

const Trouble troubles[] = {
    {"does_not_come_to_a_sum", false, wait_for_the_end, "waited 0.5 s for rank 1"},
    {"does_not_come_to_a_recorded_step", true, wait_for_the_end, "waited 0.5 s for rank 1"},
    {"ends", true, [](World&, CollectiveGroup&) { fail(ExitCode::communication, "rank 1 has ended"); }, "rank 1 has ended"},
    {"stops_with_a_reason", false, [](World&, CollectiveGroup& group) { group.abort("no more"); group.begin_step(1); }, "no more"},
    {"fails_by_itself_with_a_recorded_step", true, [](World& world, CollectiveGroup& group) { RankStep own(group, world.ranks(), world.rank(), true); group.abort("rank 1 has no memory"); group.begin_step(1); }, "rank 1 has no memory"},
    {"has_an_error_of_NCCLs", true, [](World& world, CollectiveGroup& group) { nccl::break_rank(1, ncclSystemError); wait_for_the_end(world, group); }, "NCCL: rank 1: stand-in error (nothing more)"},
    {"cannot_queue", false, [](World& world, CollectiveGroup& group) { nccl::break_rank(1, ncclRemoteError); RankStep(group, world.ranks(), world.rank(), false).run(); }, "stand-in error (nothing more)"},
};

class NcclTrouble : public testing::TestWithParam<Trouble> {};

TEST_P(NcclTrouble, OfOneRankStopsAll) {
  const Trouble& t = GetParam();
  const auto failures = on_ranks(3, short_time, [&](World& world, CollectiveGroup& group) {
    world.rank() == 1 ? t.rank_1(world, group) : RankStep(group, world.ranks(), world.rank(), t.recorded).run();
  });
  for (const std::string& failure : failures) EXPECT_NE(failure.find(t.told), std::string::npos) << failure;
  for (const std::size_t r : {0U, 2U}) {
    EXPECT_NE(failures[r].find("rank 1"), std::string::npos) << failures[r];
    EXPECT_EQ(nccl::communicator(static_cast<int>(r)).end, ncclComm::aborted) << "rank " << r << " waits on the device";
  }
}
INSTANTIATE_TEST_SUITE_P(Rank1, NcclTrouble, testing::ValuesIn(troubles), [](const auto& info) { return info.param.name; });

TEST(NcclGroup, RanksOfOneProcessNameTheOneThatIsMissing) {
  nccl::reset();
  const auto group = nccl_group({.devices = {0, 1}, .ranks = 2, .timeout_seconds = short_time});
  EXPECT_FALSE(group->captures());
  try {
    RankStep(*group, 2, 0, false).run();
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_NE(std::string_view(e.what()).find("missing is rank 1"), std::string_view::npos) << e.what();
  }
  EXPECT_THROW(group->begin_step(1), Error);
  EXPECT_EQ(nccl::misuses(), 0);
}

}  // namespace
}  // namespace tandem::cuda
