// The group that sums by NCCL, over a stand-in for it: ranks as threads with a world of their own, as processes have.
// What it does in trouble is seen here alone: on a GPU, one cannot ask NCCL to fail.
#include "kernels/cuda/collectives/nccl_group.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "ranks/world.h"
#include "tests/cuda/nccl/stand_in.h"
#include "tests/kernels/exchange_rows.h"
#include "tests/kernels/sum_over.h"
#include "tests/ranks/address.h"

namespace tandem::cuda {
namespace {

using namespace test;

constexpr double long_time = 60, short_time = 2;  // a busy machine takes half a second to start three ranks
constexpr std::int64_t elements = 100;

void record(Kernel& kernel, CUstream_st& stream) {
  stream.captures = true;
  try {
    kernel.run({&stream});
  } catch (...) {  // a capture that fails leaves no graph
    nccl::destroy_graph(stream);
    throw;
  }
  stream.captures = false;
}

// One rank's all-reduce of a step, queued or recorded; waits for its end as the device's stream does.
class RankStep {
 public:
  RankStep(CollectiveGroup& group, int ranks, int rank, bool recorded)
      : group_(group),
        rank_(rank),
        recorded_(recorded),
        stream_{.process = rank},
        kernel_(group.make(test::sum_over(ranks, elements, DType::float32), rank)) {
    std::byte* const memory = reinterpret_cast<std::byte*>(buffer_.data());
    kernel_->bind({&memory, 1}, {&memory, 1}, nullptr);
    if (recorded_) record(*kernel_, stream_);
  }
  ~RankStep() {
    if (recorded_) nccl::destroy_graph(stream_);
  }
  RankStep(const RankStep&) = delete;
  RankStep& operator=(const RankStep&) = delete;
  void run() {
    group_.begin_step(rank_);
    if (recorded_)
      nccl::replay(stream_);
    else
      kernel_->run({&stream_});
    while (!nccl::ended(rank_) && !nccl::is_done(stream_)) std::this_thread::yield();
    group_.end_step(rank_);
  }

 private:
  CollectiveGroup& group_;
  const int rank_;
  const bool recorded_;
  CUstream_st stream_;
  std::vector<float> buffer_ = std::vector<float>(elements);
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
        const auto group = nccl_group({.devices = {r}, .first_rank = r, .ranks = ranks, .world = &world, .timeout_seconds = timeout});
        body(world, *group);
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ExitCode::communication);
        failures[static_cast<std::size_t>(r)] = e.what();
      }
    });
  threads.clear();
  EXPECT_EQ(nccl::misuses(), 0) << nccl::misuse();
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
  const char* reason;  // by every rank
};
void PrintTo(const Trouble& t, std::ostream* out) { *out << t.name; }

void wait_for_the_end(World& world, CollectiveGroup& group) {
  while (!nccl::ended(world.rank())) std::this_thread::yield();
  group.begin_step(world.rank());  // fails
}

const Trouble troubles[] = {
    {"does_not_come_to_a_sum", false, wait_for_the_end, "waited 2 s for rank 1"},
    {"does_not_come_to_a_recorded_step", true, wait_for_the_end, "waited 2 s for rank 1"},
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
  for (const std::string& failure : failures) EXPECT_NE(failure.find(t.reason), std::string::npos) << failure;
  for (const std::size_t r : {0U, 2U}) {
    EXPECT_NE(failures[r].find("rank 1"), std::string::npos) << failures[r];
    EXPECT_EQ(nccl::communicator(static_cast<int>(r)).end, ncclComm::aborted) << "rank " << r << " waits on the device";
  }
}
INSTANTIATE_TEST_SUITE_P(Rank1, NcclTrouble, testing::ValuesIn(troubles), [](const auto& info) { return info.param.name; });

// Each member's part of an exchange, queued or recorded, in a rank of its own.
class NcclExchanges : public testing::TestWithParam<ExchangeRow> {};

TEST_P(NcclExchanges, GiveEachMemberItsValues) {
  const ExchangeRow& row = GetParam();
  for (const bool recorded : {false, true}) {
    const auto failures = on_ranks(exchange_ranks, long_time, [&](World& world, CollectiveGroup& group) {
      group.connect({&row.spec, 1});
      const auto member = std::ranges::find(row.spec.members, world.rank());
      if (member != row.spec.members.end()) {
        const auto m = static_cast<std::size_t>(member - row.spec.members.begin());
        const auto kernel = group.make(row.spec, world.rank());
        Values gives = row.gives[m], gets(row.gets[m].size());
        CUstream_st stream{.process = world.rank()};
        kernel->bind(operand(gives), operand(gets), nullptr);
        if (recorded) record(*kernel, stream);
        for (int round = 0; round < 3; ++round) {
          std::ranges::fill(gets, -1.0F);
          if (is_in_place(row.spec.kind)) gets = row.gives[m];
          group.begin_step(world.rank());
          recorded ? nccl::replay(stream) : kernel->run({&stream});
          while (!nccl::is_done(stream)) std::this_thread::yield();
          group.end_step(world.rank());
          EXPECT_EQ(gets, row.gets[m]) << "member " << m << ", round " << round;
        }
        if (recorded) nccl::destroy_graph(stream);
      }
      world.leave();
    });
    EXPECT_EQ(failures, std::vector<std::string>(exchange_ranks, ""));
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, NcclExchanges, testing::ValuesIn(exchange_rows()), [](const auto& info) { return info.param.name; });

// A mesh of 2 by 2: each of its rows and columns has one communicator, however many exchanges use it.
TEST(NcclGroup, ExchangesOfTheSameMembersShareACommunicator) {
  std::vector<ExchangeSpec> specs;
  for (const std::vector<int>& members : {std::vector{0, 1}, {2, 3}, {0, 2}, {1, 3}, {0, 1, 2, 3}})
    for (int i = 0; i < 2; ++i) specs.push_back({ExchangeKind::all_reduce, members, 4, DType::float32, {}, static_cast<int>(specs.size())});
  specs.push_back({ExchangeKind::send, {3, 0}, 4, DType::float32, {}, static_cast<int>(specs.size())});
  const auto failures = on_ranks(4, long_time, [&](World& world, CollectiveGroup& group) {
    group.connect(specs);
    group.connect(specs);  // a further plan's
    CUstream_st stream{.process = world.rank()};
    std::vector<Values> values;
    std::vector<std::unique_ptr<Kernel>> kernels;
    for (const ExchangeSpec& spec : specs) {
      if (std::ranges::find(spec.members, world.rank()) == spec.members.end()) continue;
      kernels.push_back(group.make(spec, world.rank()));
      Values& v = values.emplace_back(4, 1.0F);
      const bool gets = spec.kind != ExchangeKind::send || world.rank() == 0, gives = spec.kind != ExchangeKind::send || world.rank() == 3;
      kernels.back()->bind(gives ? operand(v) : std::vector<std::byte*>(), gets ? operand(v) : std::vector<std::byte*>(), nullptr);
    }
    for (const auto& kernel : kernels) kernel->run({&stream});
    while (!nccl::is_done(stream)) std::this_thread::yield();
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(values[i], Values(4, i < 4 ? 2.0F : 4.0F));
    world.leave();
  });
  EXPECT_EQ(failures, std::vector<std::string>(4, ""));
  EXPECT_EQ(nccl::communicators(), 4 + 4 * 2);  // an end each
}

// Two ranks that enter two exchanges in different orders wait for each other until somebody ends it.
TEST(NcclGroup, ADifferentOrderIsAWaitThatEnds) {
  const std::vector<ExchangeSpec> specs{{ExchangeKind::all_reduce, {0, 1}, 4, DType::float32, {}, 0},
                                        {ExchangeKind::all_reduce, {1, 0}, 4, DType::float32, {}, 1}};
  const auto failures = on_ranks(2, short_time, [&](World& world, CollectiveGroup& group) {
    group.connect(specs);
    CUstream_st stream{.process = world.rank()};
    Values values(4, 1.0F);
    std::unique_ptr<Kernel> kernels[2];
    for (std::size_t i : {0U, 1U}) {
      kernels[i] = group.make(specs[world.rank() == 0 ? i : 1 - i], world.rank());
      kernels[i]->bind({}, operand(values), nullptr);
    }
    group.begin_step(world.rank());
    for (const auto& kernel : kernels) kernel->run({&stream});
    while (!nccl::ended(world.rank()) && !nccl::is_done(stream)) std::this_thread::yield();
    group.end_step(world.rank());
  });
  for (const std::string& failure : failures)
    EXPECT_NE(failure.find("waited 2 s: all ranks are there"), std::string::npos) << failure;
}

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
