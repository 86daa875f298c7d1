// Ranks as processes: what they train, and how they end when one of them does.
#include "cli/ranks.h"

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "tests/cli/process.h"
#include "tests/ranks/address.h"
#include "trainer/checkpoint.h"
#include "trainer/file.h"

namespace tandem {
namespace {

const std::string digits = "--data synthetic:digits,train=150,test=40 --no-autotune --init he-normal ";
const std::string forever = "train MODELS/mlp.onnx --data synthetic:digits,train=200,test=50 --no-autotune --init he-normal --batch-size 64 "
                            "--epochs 1000000 --output TMP/out.onnx ";

// Kernels of a large model are timed for long: no times are kept here.
const std::string slow_to_plan = "train MODELS/resnet50.onnx --data random,samples=32 --batch-size 16 --tuning-cache TMP/kernels.cache --output TMP/out.onnx ";

Process start_rank(const TemporaryFolder& folder, const test::RankAddress& address, int rank, int ranks, const std::string& line) {
  return {folder, concat("rank", rank), words(line, folder.text()),
          std::map<std::string, std::string>{
              {"TANDEM_RANK", text_of(rank)}, {"TANDEM_WORLD_SIZE", text_of(ranks)}, {"TANDEM_ADDRESS", address.text()}}};
}

std::vector<Process> start_ranks(const TemporaryFolder& folder, const test::RankAddress& address, int ranks, const std::string& line,
                                 const std::function<std::string(int)>& own = [](int) { return ""; }) {
  std::vector<Process> list;
  for (int r = 0; r < ranks; ++r) list.push_back(start_rank(folder, address, r, ranks, line + own(r)));
  return list;
}

std::vector<Outcome> wait_all(std::vector<Process>& processes) {
  std::vector<Outcome> outcomes;
  for (Process& p : processes) outcomes.push_back(p.wait());
  return outcomes;
}

// What a run's lines say, without its times.
std::string results(const std::string& lines) {
  std::istringstream stream(lines);
  std::string text;
  for (std::string line; std::getline(stream, line);) {
    const Json event = Json::parse(line);
    for (const auto& [key, value] : event.object())
      if (key != "hash" && key != "output" && key.find("second") == std::string::npos && key.find("bytes") == std::string::npos && key != "devices" && key != "waiting_share")
        text += concat(key, ' ', value.dump(), ", ");
    text += '\n';
  }
  return text;
}

struct Row {
  const char* name;
  std::string line;
  int ranks;
  bool tcp = false, launcher = false;
};
class Ranks : public testing::TestWithParam<Row> {};

TEST_P(Ranks, TrainWhatOneProcessTrains) {
  const Row& row = GetParam();
  const TemporaryFolder folder;
  const std::string line = "train " + row.line + " " + digits + "--json ";
  const Outcome alone = Process(folder, "alone", words(line + "--output TMP/alone.onnx --run-dir TMP/alone", folder.text())).wait();
  ASSERT_EQ(alone.code, 0) << alone.err;
  const std::string together = line + "--output TMP/together.onnx --run-dir TMP/run ";
  Outcome first;
  if (row.launcher) {
    first = Process(folder, "launcher", words(concat(together, "--processes ", row.ranks), folder.text())).wait();
    ASSERT_EQ(first.code, 0) << first.err;
  } else {
    const test::RankAddress address(row.tcp);
    std::vector<Process> processes = start_ranks(folder, address, row.ranks, together);
    const std::vector<Outcome> outcomes = wait_all(processes);
    for (const Outcome& o : outcomes) ASSERT_EQ(o.code, 0) << o.err;
    for (std::size_t r = 1; r < outcomes.size(); ++r) EXPECT_EQ(outcomes[r].out + outcomes[r].err, "") << "only rank 0 speaks";
    first = outcomes[0];
  }
  EXPECT_EQ(results(first.out), results(alone.out));
  EXPECT_TRUE(read_file(folder / "together.onnx") == read_file(folder / "alone.onnx")) << "the weights differ";
  EXPECT_TRUE(std::filesystem::exists(folder / "run/last.checkpoint"));
}
INSTANTIATE_TEST_SUITE_P(
    Rows, Ranks,
    testing::Values(Row{"two", "MODELS/lenet.onnx --devices cpu:0-1 --batch-size 64 --epochs 2 --momentum 0.9", 2},
                    Row{"four_uneven_by_tcp", "MODELS/mlp.onnx --devices cpu:0-3 --slice-weights 3,1,2,1 --batch-size 50 --epochs 2 --optimizer adam", 4, true},
                    Row{"two_of_two_started_here", "MODELS/mlp.onnx --devices cpu:0-3 --batch-size 61 --epochs 2 --keep best", 2, false, true},
                    Row{"one_without_samples", "MODELS/mlp.onnx --devices cpu:0-2 --slice-weights 2,0,1 --batch-size 64 --validation-split 0.2", 3}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(RanksOfInference, MeasureAndPredictWhatOneProcessDoes) {
  const TemporaryFolder folder;
  const std::string model = "TMP/model.onnx ", data = "--data synthetic:digits,train=10,test=75 --batch-size 32 --devices cpu:0-2 ";
  const auto run = [&](const std::string& name, const std::string& line) {
    const Outcome o = Process(folder, name, words(line, folder.text())).wait();
    EXPECT_EQ(o.code, 0) << o.err;
    return o;
  };
  run("train", "train MODELS/mlp.onnx --data synthetic:digits,train=64,test=8 --no-autotune --init he-normal --output " + model);
  const Outcome alone = run("evaluate_alone", "evaluate " + model + data + "--json");
  const Outcome together = run("evaluate", "evaluate " + model + data + "--json --processes 3");
  EXPECT_EQ(results(together.out), results(alone.out));
  EXPECT_NE(results(alone.out).find("samples 75"), std::string::npos) << alone.out;

  run("predict_alone", "predict " + model + data + "--output TMP/alone.npy");
  const test::RankAddress address;
  std::vector<Process> ranks = start_ranks(folder, address, 3, "predict " + model + data,
                                           [](int r) { return concat("--output TMP/", r == 0 ? "together" : "nobody", ".npy"); });
  for (const Outcome& o : wait_all(ranks)) EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_TRUE(read_file(folder / "together.npy") == read_file(folder / "alone.npy")) << "the outputs differ";
  EXPECT_FALSE(std::filesystem::exists(folder / "nobody.npy")) << "only rank 0 writes";
}

TEST(RankDevices, AreNumberedByMachine) {
  const TemporaryFolder folder;
  const test::RankAddress address;
  const std::string line = "train MODELS/mlp.onnx " + digits + "--devices cpu:0,cpu:0 --steps 2 --output TMP/out.onnx ";
  std::vector<Process> ranks = start_ranks(folder, address, 2, line);
  for (const Outcome& o : wait_all(ranks)) EXPECT_EQ(o.code, 0) << o.err;
  for (const char* processes : {"", "--processes 2"}) {
    const Outcome o = Process(folder, "alone", words(line + processes, folder.text())).wait();
    EXPECT_EQ(o.code, 2);
    EXPECT_NE(o.err.find("devices cpu:0, cpu:0: cpu:0 is there twice"), std::string::npos) << o.err;
  }
}

TEST(RanksInTrouble, OneThatIsKilledIsNamedAndTheCheckpointStays) {
  const TemporaryFolder folder;
  const test::RankAddress address;
  std::vector<Process> processes = start_ranks(folder, address, 3, forever + "--devices cpu:0-2 --run-dir TMP/run ");
  wait_for_file(folder / "run/last.checkpoint");
  processes[1].signal(SIGKILL);
  const std::vector<Outcome> outcomes = wait_all(processes);
  for (const int r : {0, 2}) {
    EXPECT_EQ(outcomes[static_cast<std::size_t>(r)].code, 6);
    EXPECT_NE(outcomes[static_cast<std::size_t>(r)].err.find("rank 1 has ended"), std::string::npos) << outcomes[static_cast<std::size_t>(r)].err;
  }
  const std::int64_t step = read_checkpoint(folder / "run/last.checkpoint").state.at("step").integer();
  EXPECT_GE(step, 4);
  // Two ranks may go on where three stopped.
  const test::RankAddress again;
  std::vector<Process> resumed = start_ranks(folder, again, 2, forever + concat("--devices cpu:0-1 --run-dir TMP/run --resume --steps ", step + 3, ' '));
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
  for (const int signal : {SIGHUP, SIGUSR1}) {
    Process launcher(folder, "launcher", words(concat(forever, "--devices cpu:0-1 --processes 2 --run-dir TMP/run", signal), folder.text()));
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
  EXPECT_TRUE(outcomes[0].err.find("error: rank 1: stopped by a signal") != std::string::npos || outcomes[0].err.find("error: rank 1 has ended") != std::string::npos) << outcomes[0].err;
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
  const auto line = [&](const std::string& model, const std::string& own) { return concat("train MODELS/", model, ".onnx ", options, own); };
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
    processes.emplace_back(folder, concat("rank", r), words(forever + "--devices cpu:0-2 --run-dir TMP/run ", folder.text()),
                           std::map<std::string, std::string>{{"PMI_RANK", text_of(r)}, {"PMI_SIZE", "3"}, {"TANDEM_ADDRESS", address.text()}});
  wait_for_file(folder / "run/last.checkpoint");
  processes[1].signal(SIGKILL);
  const std::vector<Outcome> outcomes = wait_all(processes);
  EXPECT_EQ(outcomes[0].code, 6);
  EXPECT_NE(outcomes[0].err.find("rank 1 has ended"), std::string::npos) << outcomes[0].err;
  EXPECT_EQ(outcomes[2].code, 6);
  EXPECT_EQ(outcomes[2].err, "");
}

TEST(RankOptions, ProcessesAreComparedWithTheDevicesFirst) {
  const TemporaryFolder folder;
  const struct {
    const char* line;
    int code;
    const char* message;
  } rows[] = {
      {"--devices cpu:0-3 --processes 3", 2, "--processes 3 for 4 devices (cpu:0, cpu:1, cpu:2, cpu:3): expected as many devices for each process"},
      {"--devices cpu --processes 2", 2, "--processes 2 for 1 device (cpu:0)"},
      {"--devices cpu:0-1 --processes 0", 2, "--processes 0 for 2 devices"},
      {"--devices cpu:0-1 --processes 4000000000000", 2, "--processes 4000000000000 for 2 devices"},
      {"--devices cpu:0,cpu:99 --processes 2", 5, "device cpu:99 cannot be used: there are 64 cpu devices"},
      {"--devices tpu:0-1 --processes 2", 5, "tpu"},
  };
  for (const auto& row : rows) {
    const Outcome o = run_tandem(words(concat("train MODELS/mlp.onnx --data synthetic:digits --output TMP/out.onnx ", row.line), folder.text()));
    EXPECT_EQ(o.code, row.code) << row.line << ": " << o.err;
    EXPECT_NE(o.err.find(row.message), std::string::npos) << o.err;
  }
}

// The processes whose parent is `id`.
std::vector<int> children_of(int id) {
  std::istringstream list(read_file(concat("/proc/", id, "/task/", id, "/children")));
  std::vector<int> ids;
  for (int child = 0; list >> child;) ids.push_back(child);
  return ids;
}
// It has ended, waited for or not.
bool has_ended(int id) {
  const std::string file = concat("/proc/", id, "/stat");
  if (!std::filesystem::exists(file)) return true;
  std::ifstream stream(file);
  std::string stat;
  std::getline(stream, stat);
  const std::size_t name = stat.rfind(')');
  return name == std::string::npos || stat.substr(name + 2, 1) == "Z";
}
void expect_all_end(const std::vector<int>& ids) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!std::all_of(ids.begin(), ids.end(), has_ended) && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (const int id : ids) EXPECT_TRUE(has_ended(id)) << id;
}

TEST(RanksOfALauncher, EndWithItAndLeaveNoFiles) {
  const TemporaryFolder folder, temporary;
  Process launcher(folder, "launcher", words(forever + "--devices cpu:0-2 --run-dir TMP/run --processes 3", folder.text()), {{"TMPDIR", temporary.text()}});
  wait_for_file(folder / "run/last.checkpoint");
  const std::vector<int> ranks = children_of(launcher.id());
  ASSERT_EQ(ranks.size(), 3u);
  launcher.signal(SIGKILL);
  EXPECT_EQ(launcher.wait().code, 128 + SIGKILL);
  expect_all_end(ranks);
  EXPECT_GE(read_checkpoint(folder / "run/last.checkpoint").state.at("step").integer(), 4) << "whole";
  EXPECT_TRUE(std::filesystem::is_empty(temporary / ".")) << "sockets, messages";
}

TEST(RanksOfALauncher, EndWithACheckpointWhenTheTerminalIsClosed) {
  const TemporaryFolder folder;
  std::vector<std::string> line = words(concat(TANDEM_PROGRAM, ' ', forever, "--quiet --devices cpu:0-1 --run-dir TMP/run --processes 2"), folder.text());
  std::vector<char*> pointers;
  for (std::string& w : line) pointers.push_back(w.data());
  pointers.push_back(nullptr);
  int terminal = -1;
  const pid_t launcher = ::forkpty(&terminal, nullptr, nullptr, nullptr);  // at the head of a session whose terminal this is
  ASSERT_GE(launcher, 0);
  if (launcher == 0) {
    ::execv(TANDEM_PROGRAM, pointers.data());
    ::_exit(1);
  }
  wait_for_file(folder / "run/last.checkpoint");
  const std::vector<int> ranks = children_of(launcher);
  EXPECT_EQ(ranks.size(), 2u);
  ::close(terminal);
  int status = 0;
  ::waitpid(launcher, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 75) << status;
  expect_all_end(ranks);
  EXPECT_FALSE(std::filesystem::exists(folder / "out.onnx"));
}

TEST(RanksOfALauncher, SayWhichOfThemWasKilled) {
  const TemporaryFolder folder;
  Process launcher(folder, "launcher", words(forever + "--devices cpu:0-1 --run-dir TMP/run --processes 2", folder.text()));
  wait_for_file(folder / "run/last.checkpoint");
  const std::vector<int> ranks = children_of(launcher.id());
  ASSERT_EQ(ranks.size(), 2u);
  ::kill(ranks[1], SIGKILL);
  const Outcome o = launcher.wait();
  EXPECT_EQ(o.code, 128 + SIGKILL);
  EXPECT_NE(o.err.find("rank 1 has ended"), std::string::npos) << o.err;
}

// Who this process is, by flags and by what starts processes.
struct Told {
  std::string flags;
  std::map<std::string, std::string> environment;
  std::string want;  // "rank of ranks at address", "alone", or part of the error
};
TEST(RankOptions, ComeFromFlagsAndFromWhatStartsProcesses) {
  const Told rows[] = {
      {"", {}, "alone"},
      {"--rank 1 --world-size 3 --address a:1", {}, "1 of 3 at a:1"},
      {"", {{"TANDEM_RANK", "2"}, {"TANDEM_WORLD_SIZE", "4"}, {"TANDEM_ADDRESS", "b:2"}, {"RANK", "0"}, {"WORLD_SIZE", "2"}}, "2 of 4 at b:2"},
      {"--rank 3", {{"TANDEM_RANK", "2"}, {"TANDEM_WORLD_SIZE", "4"}, {"TANDEM_ADDRESS", "b:2"}}, "3 of 4 at b:2"},
      {"", {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "c"}, {"MASTER_PORT", "3"}}, "1 of 2 at c:3"},
      {"--address unix:/run/x", {{"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_SIZE", "6"}}, "5 of 6 at unix:/run/x"},
      {"--address a:1", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, "0 of 2 at a:1"},
      {"--address a:1", {{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_NTASKS", "9"}}, "1 of 2 at a:1"},
      {"", {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}, "alone"},
      {"--rank 1", {}, "--world-size is missing"},
      {"--rank 2 --world-size 2 --address a:1", {}, "rank 2 of 2 ranks"},
      {"", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, "has no address: give --address HOST:PORT"},
      {"--address a:1 --rank-timeout 0", {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, "--rank-timeout 0: expected more than 0"},
  };
  for (const Told& row : rows) {
    const Environment environment = [&](const std::string& name) {
      const auto found = row.environment.find(name);
      return found == row.environment.end() ? nullptr : found->second.c_str();
    };
    const Arguments arguments = Arguments::parse(words(row.flags), {}, rank_rows(), environment);
    std::istringstream in;
    std::ostringstream out;
    Streams streams{in, out, out};
    std::string got;
    try {
      const auto o = world_options({arguments, streams, environment});
      got = o ? concat(o->rank, " of ", o->ranks, " at ", o->address) : "alone";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      got = e.what();
    }
    EXPECT_NE(got.find(row.want), std::string::npos) << row.flags << ": " << got;
  }
}

}  // namespace
}  // namespace tandem
