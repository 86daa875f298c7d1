// How ranks end when one of them does, and what is refused.
#include <csignal>

#include "base/file.h"
#include "tests/cli/rank_runs.h"
#include "trainer/checkpoint.h"

namespace tandem::rank_tests {
namespace {

TEST(RanksInTrouble, OneThatIsKilledIsNamedAndTheCheckpointStays) {
  const TemporaryFolder folder;
  const test::RankAddress address;
  std::vector<Process> processes = start_ranks(folder, address, 3, forever + "--devices cpu:0-2 --run-dir TMP/run ");
  wait_for_file(folder / "run/last.checkpoint");
  processes[1].signal(SIGKILL);
  const std::vector<Outcome> outcomes = wait_all(processes);
  for (const int r : {0, 2}) {
    EXPECT_EQ(outcomes[static_cast<std::size_t>(r)].code, 6);
    EXPECT_NE(outcomes[static_cast<std::size_t>(r)].err.find("rank 1 has ended"), std::string::npos)
        << outcomes[static_cast<std::size_t>(r)].err;
  }
  const std::int64_t step = read_checkpoint(folder / "run/last.checkpoint").state.at("step").integer();
  EXPECT_GE(step, 4);
  // Two ranks may go on where three stopped.
  const test::RankAddress again;
  std::vector<Process> resumed =
      start_ranks(folder, again, 2, forever + concat("--devices cpu:0-1 --run-dir TMP/run --resume --steps ", step + 3, ' '));
  for (const Outcome& o : wait_all(resumed)) EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(read_checkpoint(folder / "run/last.checkpoint").state.at("step").integer(), step + 3);
  EXPECT_TRUE(std::filesystem::exists(folder / "out.onnx"));
}

TEST(RanksInTrouble, OneThatHangsIsNamed) {
  const TemporaryFolder folder;
  const test::RankAddress address;
  std::vector<Process> processes = start_ranks(folder, address, 3, forever + "--devices cpu:0-2 --run-dir TMP/run --rank-timeout 4 ");
  wait_for_file(folder / "run/last.checkpoint");
  processes[2].signal(SIGSTOP);
  for (const int r : {0, 1}) {
    const Outcome o = processes[static_cast<std::size_t>(r)].wait();
    EXPECT_EQ(o.code, 6);
    EXPECT_NE(o.err.find("waited 4 s for rank 2"), std::string::npos) << o.err;
  }
}

TEST(RanksInTrouble, AnInterruptOfOneStopsAll) {
  const TemporaryFolder folder;
  const test::RankAddress address;
  const std::string line = forever + "--devices cpu:0-1 --run-dir TMP/run ";
  std::vector<Process> processes = start_ranks(folder, address, 2, line);
  wait_for_file(folder / "run/last.checkpoint");
  processes[1].signal(SIGINT);
  for (const Outcome& o : wait_all(processes)) EXPECT_EQ(o.code, 75) << o.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "out.onnx"));
}

TEST(RanksInTrouble, AnInterruptOfTheLauncherStopsAll) {
  const TemporaryFolder folder;
  Process launcher(folder, "launcher", words(forever + "--devices cpu:0-1 --run-dir TMP/run --processes 2", folder.text()));
  wait_for_file(folder / "run/last.checkpoint");
  launcher.signal(SIGINT);
  const Outcome o = launcher.wait();
  EXPECT_EQ(o.code, 75) << o.err;
}

// A closed terminal and Slurm's warning come to the starter alone.
TEST(RanksInTrouble, TheLauncherPassesOnWhatAsksToEnd) {
  const TemporaryFolder folder;
  for (const int signal : {SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    Process launcher(folder, "launcher",
                     words(concat(forever, "--devices cpu:0-1 --processes 2 --run-dir TMP/run", signal), folder.text()));
    wait_for_file(folder / concat("run", signal, "/last.checkpoint"));
    launcher.signal(signal);
    const Outcome o = launcher.wait();
    EXPECT_EQ(o.code, 75) << o.err;
  }
}

// Nothing was trained, so there is nothing to keep.
TEST(RanksInTrouble, AnInterruptOfTheLauncherEndsThePlanning) {
  const TemporaryFolder folder;
  Process launcher(folder, "launcher", words(slow_to_plan + "--devices cpu:0-1 --processes 2", folder.text()));
  launcher.wait_for_message("planning (");
  const auto asked = std::chrono::steady_clock::now();
  launcher.signal(SIGINT);
  const Outcome o = launcher.wait();
  EXPECT_LT(std::chrono::steady_clock::now() - asked, std::chrono::seconds(5));
  EXPECT_EQ(o.code, 130) << o.err;
  EXPECT_NE(o.err.find("stopping the planning"), std::string::npos) << o.err;
  EXPECT_EQ(o.err.find("error"), std::string::npos) << o.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "out.onnx"));
}

TEST(RanksInTrouble, AnInterruptOfOneThatWaitsForThePlanEndsAll) {
  const TemporaryFolder folder;
  const test::RankAddress address;
  std::vector<Process> processes = start_ranks(folder, address, 2, slow_to_plan + "--devices cpu:0-1 ");
  processes[0].wait_for_message("planning (");
  const auto asked = std::chrono::steady_clock::now();
  processes[1].signal(SIGTERM);
  const std::vector<Outcome> outcomes = wait_all(processes);
  EXPECT_LT(std::chrono::steady_clock::now() - asked, std::chrono::seconds(5));
  EXPECT_EQ(outcomes[1].code, 143) << outcomes[1].err;
  EXPECT_EQ(outcomes[0].code, 6) << outcomes[0].err;
  // On a busy machine rank 1 may get the signal before it hears of any: then it has ended.
  EXPECT_TRUE(outcomes[0].err.find("error: rank 1: stopped by a signal") != std::string::npos ||
              outcomes[0].err.find("error: rank 1 has ended") != std::string::npos)
      << outcomes[0].err;
  EXPECT_FALSE(std::filesystem::exists(folder / "out.onnx"));
}

TEST(RanksInTrouble, AnUnfinishedRunOfTheLauncherIsWrittenBesideItsOutput) {
  const TemporaryFolder folder;
  folder.write("out.onnx", "of an earlier run");
  Process launcher(folder, "launcher", words(forever + "--devices cpu:0-1 --json --processes 2", folder.text()));
  launcher.wait_for_output("\"event\":\"step\"");
  launcher.signal(SIGTERM);
  const Outcome o = launcher.wait();
  EXPECT_EQ(o.code, 143) << o.err;
  EXPECT_EQ(read_file(folder / "out.onnx"), "of an earlier run");
  EXPECT_TRUE(std::filesystem::exists(folder / "out.unfinished.onnx")) << o.err;
}

TEST(RanksInTrouble, WhatIsWrongIsSaidOnce) {
  const TemporaryFolder folder;
  for (const char* wrong : {"--data npz:TMP/none.npz", "--lr-schedule stepp"}) {
    const Outcome o = Process(folder, "launcher", words(concat(forever, "--devices cpu:0-2 --processes 3 ", wrong), folder.text())).wait();
    EXPECT_NE(o.code, 0);
    std::istringstream lines(o.err);
    int errors = 0;
    for (std::string line; std::getline(lines, line);) errors += line.starts_with("error: ");
    EXPECT_EQ(errors, 1) << o.err;
  }
}

TEST(RanksInTrouble, OneThatNeverArrivesIsNamed) {
  const TemporaryFolder folder;
  const test::RankAddress address;
  std::vector<Process> processes;
  for (const int r : {0, 2}) processes.push_back(start_rank(folder, address, r, 3, forever + "--devices cpu:0-2 --rank-timeout 4 "));
  for (const Outcome& o : wait_all(processes)) {
    EXPECT_EQ(o.code, 6);
    EXPECT_NE(o.err.find("waited 4 s for rank 1"), std::string::npos) << o.err;
  }
}

struct Mismatch {
  const char* name;
  std::string of_rank_1, message, model_of_rank_1 = "mlp";
};
class RanksUnlike : public testing::TestWithParam<Mismatch> {};
TEST_P(RanksUnlike, AreRefusedByName) {
  const TemporaryFolder folder;
  const test::RankAddress address;
  const std::string options = forever.substr(forever.find(" --")) + "--devices cpu:0-1 --rank-timeout 4 ";
  const auto line = [&](const std::string& model, const std::string& own) {
    return concat("train MODELS/", model, ".onnx ", options, own);
  };
  std::vector<Process> processes;
  processes.push_back(start_rank(folder, address, 0, 2, line("mlp", "")));
  processes.push_back(start_rank(folder, address, 1, 2, line(GetParam().model_of_rank_1, GetParam().of_rank_1)));
  for (const Outcome& o : wait_all(processes)) {
    EXPECT_EQ(o.code, 6);
    EXPECT_NE(o.err.find(GetParam().message), std::string::npos) << o.err;
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, RanksUnlike,
                         testing::Values(Mismatch{"batch", "--batch-size 32", "rank 1 has batch-size 32, rank 0 has 64"},
                                         Mismatch{"size", "--data synthetic:digits,train=199,test=50", " (synthetic:digits, train: 199 samples), rank 0 has "},
                                         Mismatch{"data", "--data synthetic:digits,train=200,test=50,seed=2", "rank 1 has test data "},
                                         Mismatch{"template", "", "/models/lenet.onnx), rank 0 has ", "lenet"},
                                         Mismatch{"world", "--world-size 3", "rank 1 counts 3 ranks, rank 0 counts 2"}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(RanksInTrouble, ARanksOwnFailureIsToldToTheOthers) {
  const TemporaryFolder folder;
  const test::RankAddress address;
  std::vector<Process> processes =
      start_ranks(folder, address, 2, forever + "--devices cpu:0-1 ", [&](int r) { return r == 1 ? "--data npz:TMP/none.npz" : ""; });
  EXPECT_EQ(processes[1].wait().code, 7);
  const Outcome o = processes[0].wait();
  EXPECT_EQ(o.code, 6);
  EXPECT_NE(o.err.find("rank 1: "), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("none.npz"), std::string::npos) << o.err;
}

TEST(RanksInTrouble, ThatWriteToOneTerminalSayTheCauseOnce) {
  const TemporaryFolder folder;
  const test::RankAddress address;
  std::vector<Process> processes;
  for (int r = 0; r < 3; ++r)
    processes.emplace_back(
        folder, concat("rank", r), words(forever + "--devices cpu:0-2 --run-dir TMP/run ", folder.text()),
        std::map<std::string, std::string>{{"PMI_RANK", text_of(r)}, {"PMI_SIZE", "3"}, {"TANDEM_ADDRESS", address.text()}});
  wait_for_file(folder / "run/last.checkpoint");
  processes[1].signal(SIGKILL);
  const std::vector<Outcome> outcomes = wait_all(processes);
  EXPECT_EQ(outcomes[0].code, 6);
  EXPECT_NE(outcomes[0].err.find("rank 1 has ended"), std::string::npos) << outcomes[0].err;
  EXPECT_EQ(outcomes[2].code, 6);
  EXPECT_EQ(outcomes[2].err, "");
}

}  // namespace
}  // namespace tandem::rank_tests
