// What --profile writes and tells.
#include "base/file.h"
#include "tests/cli/process.h"
#include "tests/planner/sound_trace.h"

namespace tandem {
namespace {

constexpr std::string_view training =
    "train MODELS/mlp.onnx --data random,samples=64 --init he-normal --batch-size 16 --steps 4 --no-autotune --overwrite --run-dir none ";

std::string file(const TemporaryFolder& folder, const char* name) {
  return read_file(folder / name, ExitCode::usage);
}

// The step is the same to the bit, whether it is looked at or not.
TEST(Profile, HasPlannedAndMeasuredAndChangesNoBit) {
  const TemporaryFolder folder;
  const std::string run(training);
  ASSERT_EQ(run_tandem(words(run + "--devices cpu:0-1 --output TMP/a.onnx", folder.text())).code, 0);
  const Outcome o = run_tandem(words(run + "--devices cpu:0-1 --output TMP/b.onnx --profile TMP/p.json", folder.text()));
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(file(folder, "a.onnx"), file(folder, "b.onnx"));
  const test::TraceCounts counts = test::sound_trace(file(folder, "p.json"));
  EXPECT_EQ(counts.processes, (std::set<std::string>{"cpu:0 planned", "cpu:1 planned", "cpu:0 measured", "cpu:1 measured"}));
  EXPECT_EQ(counts.slices % 4, 0U);
  EXPECT_GT(counts.slices, 40U);
  EXPECT_GE(counts.flows, 2U);
  EXPECT_NE(o.err.find("profile of one step, in "), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("InnerProduct"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("\nkernel  "), std::string::npos) << "a table has lines: " << o.err;
}

// A pipeline: each micro-batch's steps, on all ranks, in one file.
TEST(Profile, HasTheDevicesOfAllRanks) {
  const TemporaryFolder folder;
  const std::string line = concat(training, "--devices cpu:0-1 --parallel pipeline=2 --micro-batches 4 --processes 2 --json ",
                                  "--output TMP/a.onnx --profile TMP/p.json");
  const Outcome o = Process(folder, "ranks", words(line, folder.text())).wait();
  ASSERT_EQ(o.code, 0) << o.err;
  const std::string text = file(folder, "p.json");
  const test::TraceCounts counts = test::sound_trace(text);
  EXPECT_EQ(counts.processes.size(), 4U);
  const Json trace = Json::parse(text);
  std::map<std::int64_t, double> busy;  // by process
  for (const Json& e : trace.at("traceEvents").array())
    if (e.at("ph").text() == "X") busy[e.at("pid").integer()] += e.at("dur").number();
  ASSERT_EQ(busy.size(), 4U);
  for (const auto& [process, microseconds] : busy) EXPECT_GT(microseconds, 0) << process;
  const std::size_t event = o.out.find(R"({"event":"profile","file":)");
  ASSERT_NE(event, std::string::npos) << o.out;
  const Json told = Json::parse(o.out.substr(event, o.out.find('\n', event) - event));
  EXPECT_GT(told.at("seconds").number(), 0);
  const Json::Array& kernels = told.at("kernels").array();
  for (std::size_t i = 1; i < kernels.size(); ++i) EXPECT_GE(kernels[i - 1].at("measured").number(), kernels[i].at("measured").number());
}

TEST(Profile, SaysWhereItCannotBeWritten) {
  const TemporaryFolder folder;
  const Outcome o = run_tandem(words(concat(training, "--devices cpu:0 --output TMP/a.onnx --profile /dev/null/p.json"), folder.text()));
  EXPECT_EQ(o.code, 7) << o.err;
  EXPECT_NE(o.err.find("/dev/null"), std::string::npos) << o.err;
}

}  // namespace
}  // namespace tandem
