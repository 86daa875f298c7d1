// Ranks that write a checkpoint in parts: one of them has a disk that fails, or dies, at any of its calls; one sees another folder.
#include <sys/resource.h>

#include <algorithm>
#include <iostream>
#include <sstream>

#include "base/file.h"
#include "tests/cli/broken_run.h"
#include "tests/cli/faults.h"
#include "tests/ranks/address.h"
#include "trainer/checkpoint.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

// Two epochs of one step, each with a checkpoint; of the first the best may be another.
const std::string options =
    "--data random,samples=8 --batch-size 4 --epochs 2 --steps 2 --momentum 0.9 --devices cpu:0-1 --parallel zero=3 --checkpoint-steps 1";

struct Row {
  const char* fault;
  int rank;
  bool kills;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.fault << "_of_rank_" << row.rank; }

struct Ended {
  Outcome first, second;
  const Outcome& of(int rank) const { return rank == 0 ? first : second; }
  std::string errors() const { return first.err + second.err; }
};

// Both ranks, one of them with more in its environment.
Ended ended(const BrokenRun& run, int with_more = 0, const std::map<std::string, std::string>& more = {}) {
  const test::RankAddress address;
  std::vector<Process> processes;
  for (int r = 0; r < 2; ++r) {
    std::map<std::string, std::string> environment{
        {"TANDEM_RANK", text_of(r)}, {"TANDEM_WORLD_SIZE", "2"}, {"TANDEM_ADDRESS", address.text()}};
    if (r == with_more) environment.insert(more.begin(), more.end());
    processes.push_back(run.start(environment));
  }
  Ended e;
  e.first = processes[0].wait();
  e.second = processes[1].wait();
  return e;
}

class FailingDiskOfRanks : public testing::TestWithParam<Row> {};

TEST_P(FailingDiskOfRanks, CostsNoBit) {
#ifndef TANDEM_FAILING_CALLS
  GTEST_SKIP() << "a library to preload does not go with a sanitizer";
#endif
  const Row& row = GetParam();
  const TemporaryFolder folder;
  const BrokenRun whole(folder, "whole", options);
  const Ended unbroken = ended(whole, row.rank, with_fault(whole.folder(), "", 0, folder / "log"));
  ASSERT_EQ(unbroken.first.code, 0) << unbroken.errors();
  ASSERT_EQ(unbroken.second.code, 0) << unbroken.errors();
  const Result wanted = whole.result();
  EXPECT_EQ(names_of_parts(whole.checkpoint()).size(), 2U);
  const std::string log = read_file(folder / "log");
  const int calls = static_cast<int>(std::count(log.begin(), log.end(), '\n'));
  ASSERT_GT(calls, 20) << log;

  int broken = 0;
  for (const int call : tried_calls(calls)) {
    SCOPED_TRACE(concat(row.fault, " of rank ", row.rank, " at call ", call, " of ", calls));
    const BrokenRun run(folder, concat("run", call), options);
    const Ended e = ended(run, row.rank, with_fault(run.folder(), row.fault, call, {}));
    const Outcome &hit = e.of(row.rank), &other = e.of(1 - row.rank);
    if (row.kills) EXPECT_EQ(hit.code, 137) << e.errors();
    if (row.kills) EXPECT_TRUE(other.code == 6 || other.code == 0) << other.code << ' ' << e.errors();  // 0: it was through
    if (!row.kills) EXPECT_TRUE(hit.code == 0 || hit.code == 7) << hit.code << ' ' << e.errors();
    run.step();  // fails where no checkpoint is whole
    if (hit.code != 0 || other.code != 0 || e.errors().find("warning: ") != std::string::npos || !run.leftovers().empty()) {
      ++broken;
      const Ended again = ended(run);
      ASSERT_EQ(again.first.code, 0) << again.errors();
      ASSERT_EQ(again.second.code, 0) << again.errors();
    }
    EXPECT_TRUE(run.result() == wanted) << "other results";
    EXPECT_EQ(run.leftovers(), std::vector<std::string>());
    fs::remove_all(run.folder());
  }
  std::cout << row.fault << " of rank " << row.rank << ": " << tried_calls(calls).size() << " of " << calls << " calls tried, " << broken
            << " runs taken up again\n";
}

std::vector<Row> rows() {
  std::vector<Row> list;
  for (const int rank : {0, 1})
    for (const auto& [fault, kills] : {std::pair{"kill", true}, {"torn", true}, {"cut", true}, {"full", false}, {"eio", false}})
      list.push_back({fault, rank, kills});
  return list;
}
INSTANTIATE_TEST_SUITE_P(Faults, FailingDiskOfRanks, testing::ValuesIn(rows()),
                         [](const auto& info) { return concat(info.param.fault, "_of_rank_", info.param.rank); });

// A disk that is full for a while, of one rank.
TEST(PartsOfRanks, ThatCannotBeWrittenAreTriedAgain) {
  const TemporaryFolder folder;
  const test::RankAddress address;
  std::vector<Process> ranks;
  for (int r = 0; r < 2; ++r)
    ranks.emplace_back(folder, concat("rank", r),
                       words("train MODELS/mlp.onnx --data synthetic:digits,train=200,test=50 --no-autotune --init he-normal "
                             "--batch-size 64 --devices cpu:0-1 --parallel zero=3 --epochs 1000000 --run-dir TMP/run --output TMP/o.onnx",
                             folder.text()),
                       std::map<std::string, std::string>{
                           {"TANDEM_RANK", text_of(r)}, {"TANDEM_WORLD_SIZE", "2"}, {"TANDEM_ADDRESS", address.text()}});
  const auto allow = [&](rlim_t bytes) {
    rlimit limit{};
    ASSERT_EQ(::prlimit(ranks[1].id(), RLIMIT_FSIZE, nullptr, &limit), 0);
    limit.rlim_cur = bytes == 0 ? limit.rlim_max : bytes;
    ASSERT_EQ(::prlimit(ranks[1].id(), RLIMIT_FSIZE, &limit, nullptr), 0);
  };
  wait_for_file(folder / "run/last.checkpoint");
  allow(100'000);
  ranks[0].wait_for_message("are free); the next interval tries again");
  EXPECT_GT(read_checkpoint(folder / "run/last.checkpoint").state.at("step").integer(), 0) << "the one before is whole";
  fs::remove(folder / "run/last.checkpoint");
  allow(0);
  wait_for_file(folder / "run/last.checkpoint");
  ranks[1].signal(SIGTERM);
  const Outcome first = ranks[0].wait(), second = ranks[1].wait();
  EXPECT_EQ(first.code, 75) << first.err;
  EXPECT_EQ(second.code, 75) << second.err;
  EXPECT_NE(first.err.find(": rank 1: cannot write '"), std::string::npos) << first.err;
}

// As on machines that share no folder: the second rank's is another, of the same name.
TEST(PartsOfRanks, AreOneFileWhereARankSeesAnotherFolder) {
  const TemporaryFolder folder;
  const std::string line =
      "TANDEM train MODELS/mlp.onnx --data synthetic:digits,train=96,test=16 --no-autotune --init he-normal --batch-size 48 "
      "--devices cpu:0-1 --parallel zero=3 --epochs 2 --run-dir TMP/run --output TMP/o.onnx";
  const std::string elsewhere = "unshare --user --map-root-user --mount sh -c 'mount -t tmpfs none TMP/run && ";
  if (Process::shell(folder, "unshare", concat("mkdir TMP/run; ", elsewhere, "true'")).wait().code != 0)
    GTEST_SKIP() << "no folder can be mounted here (unshare --mount)";
  const test::RankAddress address;
  const auto rank = [&](int r) { return concat(line, " --world-size 2 --address ", address.text(), " --rank ", r); };
  Process first = Process::shell(folder, "first", rank(0)), second = Process::shell(folder, "second", concat(elsewhere, rank(1), "'"));
  const Outcome o = first.wait(), other = second.wait();
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_NE(o.err.find(concat("warning: rank 1 cannot write to the run's folder ", (folder / "run").string(), ", or sees another")),
            std::string::npos)
      << o.err;
  EXPECT_FALSE(fs::exists(folder / "run/parts"));
  EXPECT_EQ(names_of_parts(folder / "run/last.checkpoint").size(), 0U);
  EXPECT_EQ(read_checkpoint(folder / "run/last.checkpoint").state.at("step").integer(), 4);
}

}  // namespace
}  // namespace tandem
