// Checkpoints of one file that is too large for a copy in memory: a disk that fails in the middle of one, and a slow one.
#include <sstream>

#include "base/file.h"
#include "tests/cli/broken_run.h"
#include "tests/cli/faults.h"
#include "tests/cli/table_model.h"

namespace tandem {
namespace {

// Two epochs of two steps, each step with a checkpoint of 72 MiB.
const std::string options =
    "--data random,samples=16 --batch-size 8 --epochs 2 --init keep --momentum 0.9 --devices cpu:0 --checkpoint-steps 1";
const std::string written = ".last.checkpoint.";  // the name under which it is written

enum class At { write, flush };  // of the second checkpoint
struct Row {
  const char* name;
  const char* fault;
  At at;
  const char *cannot, *why;  // of the checkpoint of step 2; empty: the second try has written it
  bool stays;        // so do the later ones
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class LargeCheckpoint : public testing::TestWithParam<Row> {};

std::map<std::string, std::string> faulty(const BrokenRun& run, const char* fault, int call, const std::filesystem::path& log) {
  std::map<std::string, std::string> environment = with_fault(run.folder(), fault, call, log);
  environment["TANDEM_FAULT_NAME"] = written;
  return environment;
}

// The number of the call that a fault of the second checkpoint is for.
int number_of(const std::string& log, At at) {
  std::istringstream lines(log);
  int number = 0, flushed = 0;
  for (std::string call, line; lines >> number >> call && std::getline(lines, line);) {
    if (flushed == 1 && call.find(at == At::write ? "write" : "fsync") != std::string::npos) return number;
    flushed += call == "fsync";
  }
  return 0;
}

TEST_P(LargeCheckpoint, OfAFailingDiskLeaveTheOneBefore) {
#ifndef TANDEM_FAILING_CALLS
  GTEST_SKIP() << "a library to preload does not go with a sanitizer";
#endif
  const Row& row = GetParam();
  const TemporaryFolder folder;
  write_table_model(folder, "tiny.onnx", 9216, 1024);  // in the place of BrokenRun's own template
  const BrokenRun whole(folder, "whole", options), run(folder, "run", options);
  ASSERT_EQ(whole.start(faulty(whole, "", 0, folder / "log")).wait().code, 0);
  const int call = number_of(read_file(folder / "log"), row.at);
  ASSERT_GT(call, 0) << "the calls are not seen";

  const Outcome o = run.start(faulty(run, row.fault, call, {})).wait();
  EXPECT_EQ(o.code, 0) << o.err;
  const std::string told = concat("warning: no checkpoint of step 2: cannot ", row.cannot, " '", run.checkpoint().string(), "': ", row.why);
  EXPECT_EQ(o.err.find(told) != std::string::npos, *row.why != '\0') << o.err;
  EXPECT_EQ(o.err.find("no checkpoint of step 4") != std::string::npos, row.stays) << o.err;
  EXPECT_EQ(run.step(), row.stays ? 1 : 4);
  if (row.stays) {
    ASSERT_EQ(run.start().wait().code, 0);
  }
  const Result found = run.result(), wanted = whole.result();  // the best checkpoint may be another: that of step 2 is lost
  EXPECT_TRUE(found.output == wanted.output && found.metrics == wanted.metrics) << "other results";
  EXPECT_EQ(run.leftovers(), std::vector<std::string>());
}
INSTANTIATE_TEST_SUITE_P(Faults, LargeCheckpoint,
                         testing::Values(Row{"full_while_written", "full", At::write, "create", "No space left on device (it takes 72",
                                             true},
                                         Row{"full_once", "enospc", At::write, "", "", false},
                                         Row{"broken_once", "eio", At::write, "", "", false},
                                         Row{"full_when_flushed", "enospc", At::flush, "write", "No space left on device", false},
                                         Row{"broken_when_flushed", "eio", At::flush, "write", "Input/output error", false}),
                         [](const auto& info) { return std::string(info.param.name); });

// The disk takes a second for each: the run waits, says so once, and never has two of them in memory.
TEST(LargeCheckpoints, OfASlowDiskSlowTheRun) {
#ifndef TANDEM_FAILING_CALLS
  GTEST_SKIP() << "a library to preload does not go with a sanitizer";
#endif
  const TemporaryFolder folder;
  write_table_model(folder, "tiny.onnx", 9216, 1024);  // in the place of BrokenRun's own template
  const BrokenRun whole(folder, "whole", options), run(folder, "run", options);
  Process quick = whole.start(), slow = run.start(faulty(run, "slow", 0, {}));
  ASSERT_EQ(quick.wait().code, 0);
  const Outcome o = slow.wait();
  EXPECT_EQ(o.code, 0) << o.err;
  const std::size_t told = o.err.find("warning: the disk is slower than checkpoints come: step 2 waited ");
  ASSERT_NE(told, std::string::npos) << o.err;
  EXPECT_NE(o.err.find(" for the checkpoint of step 1, ", told), std::string::npos) << o.err;
  EXPECT_EQ(o.err.find("slower than", told + 40), std::string::npos) << "said again: " << o.err;
  EXPECT_LT(slow.peak_bytes(), quick.peak_bytes() + (std::int64_t{16} << 20));
  EXPECT_TRUE(run.result() == whole.result()) << "other results";
}

}  // namespace
}  // namespace tandem
