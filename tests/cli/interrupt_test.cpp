// Signals to the program as a process: what it says, what it leaves, how it ends.
#include <chrono>
#include <csignal>
#include <thread>

#include "tests/cli/process.h"
#include "trainer/file.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

// Kernels of a large model are timed for long: no times are kept here.
const std::string slow_to_plan = "train MODELS/resnet50.onnx --data random,samples=32 --batch-size 16 --tuning-cache TMP/kernels.cache --output TMP/out.onnx ";
const std::string forever = "train MODELS/mlp.onnx --data synthetic:digits,train=200,test=50 --no-autotune --init he-normal --epochs 1000000 --json --output TMP/out.onnx ";

struct Row {
  int signal, code;
};
class Signals : public testing::TestWithParam<Row> {};
INSTANTIATE_TEST_SUITE_P(Rows, Signals, testing::Values(Row{SIGINT, 130}, Row{SIGTERM, 143}),
                         [](const auto& row) { return std::string(row.param.signal == SIGINT ? "interrupt" : "terminate"); });

TEST_P(Signals, EndThePlanningSoonAndNothingIsWritten) {
  const TemporaryFolder folder;
  folder.write("out.onnx", "of an earlier run");
  Process process(folder, "tandem", words(slow_to_plan + "--run-dir TMP/run --also-training-graph TMP/graph.onnx", folder.text()));
  process.wait_for_message("planning (");
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const auto asked = Clock::now();
  process.signal(GetParam().signal);
  const Outcome o = process.wait();
  EXPECT_EQ(o.code, GetParam().code) << o.err;
  EXPECT_LT(seconds_since(asked), 5) << "a kernel's timing takes a third of a second, on a machine that is not busy";
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
  process.wait_for_output("\"event\": \"step\"");
  process.signal(GetParam().signal);
  const Outcome o = process.wait();
  EXPECT_EQ(o.code, GetParam().code) << o.err;
  const std::string beside = (folder / "out.unfinished.onnx").string();
  EXPECT_NE(o.err.find("stopping after this step or batch of validation: the weights so far go to " + beside), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("the weights so far are in " + beside), std::string::npos) << o.err;
  EXPECT_NE(o.out.find("\"event\": \"stopped\""), std::string::npos);
  EXPECT_EQ(read_file(folder / "out.onnx"), "of an earlier run");
  EXPECT_EQ(run_tandem(words("evaluate TMP/out.unfinished.onnx --data synthetic:digits,train=8,test=8", folder.text())).code, 0);
}

// Its epoch's checkpoint is there before, and what was left out is made up when the run goes on.
TEST(SignalsInAValidation, BreakItOff) {
  const TemporaryFolder folder;
  const std::string line =
      "train MODELS/mini_googlenet.onnx --data random,samples=1000 --validation-split 0.98 --batch-size 4 --no-autotune --keep best ";
  const auto start = [&](const std::string& rest) {
    return Process(folder, "tandem", words(rest, folder.text()), {{"OMP_WAIT_POLICY", "passive"}});  // threads that spin are slow beside other tests
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
    std::getline(csv, title), std::getline(csv, row);
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

TEST(TheSecondSignal, EndsAtOnce) {
  const TemporaryFolder folder;
  // Steps that take a while.
  Process process(folder, "tandem", words("train MODELS/resnet50.onnx --data random,samples=16 --batch-size 16 --no-autotune --epochs 99 --json --output TMP/out.onnx", folder.text()), {{"OMP_WAIT_POLICY", "passive"}});
  process.wait_for_output("\"event\": \"step\"");
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
