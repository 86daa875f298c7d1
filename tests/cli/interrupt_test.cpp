// Signals to the program as a process: what it says, what it leaves, how it ends.
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/file.h"
#include "tests/cli/process.h"
#include "tests/importer/model_builder.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

// Kernels of a large model are timed for long: no times are kept here.
const std::string slow_to_plan =
    "train MODELS/resnet50.onnx --data random,samples=32 --batch-size 16 --tuning-cache TMP/kernels.cache --output TMP/out.onnx ";
const std::string forever =
    "train MODELS/mlp.onnx --data synthetic:digits,train=200,test=50 --no-autotune --init he-normal --epochs 1000000 --json --output "
    "TMP/out.onnx ";

struct Row {
  int signal, code;
};
class Signals : public testing::TestWithParam<Row> {};
const auto name_of = [](const auto& row) { return std::string(::sigabbrev_np(row.param.signal)); };
INSTANTIATE_TEST_SUITE_P(Rows, Signals,
                         testing::Values(Row{SIGINT, 130}, Row{SIGTERM, 143}, Row{SIGHUP, 129}, Row{SIGUSR1, 138}, Row{SIGUSR2, 140},
                                         Row{SIGXCPU, 152}),
                         name_of);
class PlanningSignals : public Signals {};
INSTANTIATE_TEST_SUITE_P(Rows, PlanningSignals, testing::Values(Row{SIGINT, 130}, Row{SIGTERM, 143}), name_of);

TEST_P(PlanningSignals, EndItSoonAndNothingIsWritten) {
  const TemporaryFolder folder;
  folder.write("out.onnx", "of an earlier run");
  Process process(folder, "tandem", words(slow_to_plan + "--run-dir TMP/run --also-training-graph TMP/graph.onnx", folder.text()));
  process.wait_for_message("planning (");
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const auto asked = Clock::now();
  process.signal(GetParam().signal);
  const Outcome o = process.wait();
  EXPECT_EQ(o.code, GetParam().code) << o.err;
  EXPECT_LT(seconds_since(asked), 3) << "after 0.8 s it does not wait for the kernel that is timed";
  EXPECT_NE(o.err.find("stopping the planning: nothing is written"), std::string::npos) << o.err;
  EXPECT_EQ(read_file(folder / "out.onnx"), "of an earlier run");
  EXPECT_FALSE(std::filesystem::exists(folder / "graph.onnx"));
  for (const auto& entry : std::filesystem::directory_iterator(folder / "run"))
    EXPECT_EQ(entry.path().filename(), "run.lock") << "a run that never began leaves nothing else";
}

TEST_P(Signals, LeaveAnOutputAsItIsAndWriteBesideIt) {
  const TemporaryFolder folder;
  folder.write("out.onnx", "of an earlier run");
  Process process(folder, "tandem", words(forever, folder.text()));
  process.wait_for_output("\"event\":\"step\"");
  process.signal(GetParam().signal);
  const Outcome o = process.wait();
  EXPECT_EQ(o.code, GetParam().code) << o.err;
  const std::string beside = (folder / "out.unfinished.onnx").string();
  EXPECT_NE(o.err.find("stopping after this step or batch of validation: the weights so far go to " + beside), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("the weights so far are in " + beside), std::string::npos) << o.err;
  EXPECT_NE(o.out.find("\"event\":\"stopped\""), std::string::npos);
  EXPECT_EQ(read_file(folder / "out.onnx"), "of an earlier run");
  EXPECT_EQ(run_tandem(words("evaluate TMP/out.unfinished.onnx --data synthetic:digits,train=8,test=8", folder.text())).code, 0);
}

TEST_P(Signals, LeaveACheckpointThatIsGoneOnFrom) {
  const TemporaryFolder folder;
  Process process(folder, "tandem", words(forever + "--run-dir TMP/run", folder.text()));
  process.wait_for_output("\"event\":\"step\"");
  process.signal(GetParam().signal);
  const Outcome o = process.wait();
  EXPECT_EQ(o.code, 75) << o.err;
  EXPECT_NE(o.err.find("go on with --resume --run-dir " + (folder / "run").string()), std::string::npos) << o.err;
  EXPECT_TRUE(std::filesystem::exists(folder / "run/last.checkpoint"));
}

// With nohup a run outlives its terminal.
TEST(IgnoredSignals, StayIgnored) {
  const TemporaryFolder folder;
  Process process = Process::shell(folder, "tandem", "trap '' HUP; exec TANDEM " + forever);
  process.wait_for_output("\"event\":\"step\"");
  process.signal(SIGHUP);
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait().code, 143);
}

// They have nothing to save: these end at once, also where signals would do nothing by themselves.
TEST(OtherCommands, EndAtOnce) {
  const TemporaryFolder folder;
  const char* lines[] = {"evaluate MODELS/mlp.onnx --data random,samples=400000 --batch-size 1",
                         "predict MODELS/mlp.onnx --data random,samples=400000 --batch-size 1 --output TMP/y.npy",
                         "plan MODELS/resnet50.onnx --autotune --tuning-cache TMP/kernels.cache"};
  std::vector<Process> processes;
  for (const char* line : lines) processes.emplace_back(folder, concat("tandem", processes.size()), words(line, folder.text()));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  for (Process& p : processes) {
    const auto asked = Clock::now();
    p.signal(SIGTERM);
    EXPECT_EQ(p.wait().code, 143);
    EXPECT_LT(seconds_since(asked), 1);
  }
}

struct PipeRow {
  const char* name;
  std::string line;
  int code;
};
class Pipes : public testing::TestWithParam<PipeRow> {};
// Whoever reads the output goes before it comes.
TEST_P(Pipes, ThatNobodyReadsEndNothing) {
  const TemporaryFolder folder;
  const Outcome o = Process::shell(folder, "shell", GetParam().line).wait();
  EXPECT_EQ(o.err, "");
  EXPECT_EQ(read_file(folder / "code"), concat(GetParam().code, '\n'));
}
INSTANTIATE_TEST_SUITE_P(
    Rows, Pipes,
    testing::Values(PipeRow{"train",
                            "{ sleep 0.1; TANDEM train MODELS/mlp.onnx --data synthetic:digits,train=100,test=20 --init he-normal "
                            "--no-autotune --json --quiet --epochs 2 --output TMP/o.onnx; "
                            "echo $? > TMP/code; } | true; test -s TMP/o.onnx || echo none >&2",
                            0},
                    PipeRow{"summary", "{ sleep 0.1; TANDEM summary MODELS/resnet50.onnx; echo $? > TMP/code; } | true", 0},
                    PipeRow{"plan", "{ sleep 0.1; TANDEM plan MODELS/lenet.onnx --quiet; echo $? > TMP/code; } | true", 0},
                    // A full disk is something else.
                    PipeRow{"full",
                            "TANDEM summary MODELS/lenet.onnx >/dev/full 2>TMP/said; echo $? >TMP/code; grep -q 'could not be written' "
                            "TMP/said || echo silent >&2",
                            7}),
    [](const auto& row) { return std::string(row.param.name); });

// Its epoch's checkpoint is there before, and what was left out is made up when the run goes on.
TEST(SignalsInAValidation, BreakItOff) {
  const TemporaryFolder folder;
  const std::string line =
      "train MODELS/mini_googlenet.onnx --data random,samples=1000 --validation-split 0.98 --batch-size 4 --no-autotune --keep best ";
  const auto start = [&](const std::string& rest) {
    // threads that spin are slow beside other tests
    return Process(folder, "tandem", words(rest, folder.text()), {{"OMP_WAIT_POLICY", "passive"}});
  };
  Process process = start(line + "--run-dir TMP/run --output TMP/out.onnx");
  wait_for_file(folder / "run/last.checkpoint");
  const auto asked = Clock::now();
  process.signal(SIGINT);
  const Outcome o = process.wait();
  EXPECT_EQ(o.code, 75) << o.err;
  EXPECT_LT(seconds_since(asked), 5);
  EXPECT_NE(o.err.find("a checkpoint goes to " + (folder / "run").string()), std::string::npos) << o.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "out.onnx"));
  const auto measures = [&](const std::string& run) {  // of the only epoch: loss, accuracy, val_loss, val_accuracy
    std::istringstream csv(read_file(folder / (run + "/metrics.csv")));
    std::string title, row, measures;
    std::getline(csv, title);
    std::getline(csv, row);
    std::istringstream cells(row);
    for (int i = 0; std::getline(cells, row, ',') && i < 6; ++i)
      if (i >= 2) measures += row + ',';
    return measures;
  };
  EXPECT_TRUE(measures("run").ends_with(",,,")) << measures("run");
  ASSERT_EQ(start("train --resume --run-dir TMP/run").wait().code, 0);
  ASSERT_EQ(start(line + "--run-dir TMP/whole --output TMP/whole.onnx").wait().code, 0);
  EXPECT_EQ(measures("run"), measures("whole"));
  EXPECT_EQ(measures("run").find(",,"), std::string::npos) << measures("run");
  EXPECT_TRUE(read_file(folder / "out.onnx") == read_file(folder / "whole.onnx")) << "the weights differ";
}

// A convolution whose kernel is as large as half its image: little memory, and a step of minutes.
std::string slow_model() {
  test::Model m;
  m.input("x", "N,1,512,512").add(test::filled_tensor("w", {1, 1, 255, 255})).add(test::filled_tensor("v", {1, 4}));
  m.add(test::node("Conv", {"x", "w"}, {"c"}, {{"pads", std::vector<std::int64_t>(4, 127)}}))
      .add(test::node("GlobalAveragePool", {"c"}, {"p"}));
  m.add(test::node("Flatten", {"p"}, {"f"})).add(test::node("MatMul", {"f", "v"}, {"y"}));
  return m.output("y").bytes();
}

// It is announced, and after the signal it is not waited for longer than --grace.
TEST(AStepOfMinutes, IsGivenUpAfterASignal) {
  const TemporaryFolder folder;
  folder.write("slow.onnx", slow_model());
  Process process(
      folder, "tandem",
      words(
          "train TMP/slow.onnx --data random,samples=64 --batch-size 64 --no-autotune --grace 0.2 --output TMP/out.onnx --run-dir TMP/run",
          folder.text()));
  wait_for_file(folder / "run/plan.txt");  // all is planned
  process.signal(SIGTERM);
  const Outcome o = process.wait();
  EXPECT_EQ(o.code, 75) << o.err;
  EXPECT_NE(o.err.find("note: a step takes about "), std::string::npos) << o.err;
  EXPECT_NE(
      o.err.find("the step has not ended 0.2 s after the signal (--grace): the run ends before its first checkpoint; --resume --run-dir "),
      std::string::npos)
      << o.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "out.onnx"));
}

TEST(TheSecondSignal, EndsAtOnce) {
  const TemporaryFolder folder;
  // Steps that take a while.
  Process process(
      folder, "tandem",
      words("train MODELS/resnet50.onnx --data random,samples=16 --batch-size 16 --no-autotune --epochs 99 --json --output TMP/out.onnx",
            folder.text()),
      {{"OMP_WAIT_POLICY", "passive"}});
  process.wait_for_output("\"event\":\"step\"");
  process.signal(SIGINT);
  process.wait_for_message("a second signal ends at once");
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  const auto asked = Clock::now();
  process.signal(SIGTERM);
  const Outcome o = process.wait();
  EXPECT_TRUE(o.code == 143 || std::filesystem::exists(folder / "out.unfinished.onnx")) << o.code;  // or its step was over
  EXPECT_LT(seconds_since(asked), 2);
  EXPECT_FALSE(std::filesystem::exists(folder / "out.onnx"));
}

}  // namespace
}  // namespace tandem
