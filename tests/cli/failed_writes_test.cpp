// Files that cannot be written: what the run makes of it, and what it says before it begins.
#include <sys/resource.h>

#include "base/file.h"
#include "tests/cli/process.h"
#include "tests/importer/model_builder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

const std::string digits = "train MODELS/mlp.onnx --data synthetic:digits,train=200,test=50 --no-autotune --init he-normal ";

Outcome finish(const TemporaryFolder& folder, const std::string& line) {
  return Process(folder, "finish", words(line, folder.text())).wait();
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(FilesForPeople, ThatCannotBeWrittenAreWarnedOfOnce) {
  const TemporaryFolder folder;
  for (const char* name : {"metrics.csv", "curves.svg", "plan.txt"}) fs::create_directories(folder / "run" / name);
  folder.write("run/run.lock", "");
  const Outcome o = finish(folder, digits + "--epochs 2 --quiet --run-dir TMP/run --output TMP/o.onnx");
  EXPECT_EQ(o.code, 0) << o.err;
  for (const char* name : {"metrics.csv", "curves.svg", "plan.txt"})
    EXPECT_EQ(count(o.err, concat("warning: ", (folder / "run" / name).string(), ": is a folder")), 1) << o.err;
  EXPECT_TRUE(fs::exists(folder / "o.onnx") && fs::exists(folder / "run/last.checkpoint"));
}

// A disk that is full for a while.
TEST(Checkpoints, ThatCannotBeWrittenAreTriedAgain) {
  const TemporaryFolder folder;
  Process process(folder, "tandem", words(digits + "--epochs 1000000 --json --run-dir TMP/run --output TMP/o.onnx", folder.text()));
  const auto allow = [&](rlim_t bytes) {
    rlimit limit{};
    ASSERT_EQ(::prlimit(process.id(), RLIMIT_FSIZE, nullptr, &limit), 0);
    limit.rlim_cur = bytes == 0 ? limit.rlim_max : bytes;
    ASSERT_EQ(::prlimit(process.id(), RLIMIT_FSIZE, &limit, nullptr), 0);
  };
  wait_for_file(folder / "run/last.checkpoint");
  allow(100'000);
  process.wait_for_message("are free); the next interval tries again");
  fs::remove(folder / "run/last.checkpoint");
  allow(0);
  wait_for_file(folder / "run/last.checkpoint");
  process.signal(SIGTERM);
  const Outcome o = process.wait();
  EXPECT_EQ(o.code, 75) << o.err;
  EXPECT_NE(o.err.find("warning: no checkpoint of step "), std::string::npos) << o.err;
  const std::string path = (folder / "run/last.checkpoint").string();
  EXPECT_NE(o.err.find(concat("cannot write '", path, "': File too large (it takes ")), std::string::npos) << o.err;
}

TEST(Checkpoints, OfWhichNoneCouldBeWrittenFailTheRunAtItsEnd) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "run/last.checkpoint/full");
  const Outcome o = finish(folder, digits + "--overwrite --epochs 2 --run-dir TMP/run --output TMP/o.onnx");
  EXPECT_EQ(o.code, 7) << o.err;
  EXPECT_NE(o.err.find("no checkpoint could be written, 2 tried, the last: "), std::string::npos) << o.err;
  EXPECT_TRUE(fs::exists(folder / "o.onnx"));
}

// The output's place becomes a folder while the run goes on: its weights are kept where the rest can be done, to the bits of
// the run that nothing happened to.
TEST(TheTrainedModel, ThatCannotBeWrittenIsNotLost) {
  const TemporaryFolder folder;
  const std::string line = digits + "--momentum 0.9 --epochs 20 --json --output TMP/";
  Process process(folder, "tandem", words(line + "o.onnx", folder.text()));
  process.wait_for_output("\"event\":\"step\"");
  fs::create_directory(folder / "o.onnx");
  const Outcome o = process.wait();
  EXPECT_EQ(o.code, 7) << o.err;
  const std::string kept = (folder / "o.unfinished").string();
  EXPECT_NE(o.err.find("the weights of step 140 are kept in " + kept), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("tandem train --resume --run-dir " + kept + " --output FILE"), std::string::npos) << o.err;
  const Outcome again = finish(folder, "train --resume --run-dir TMP/o.unfinished --output TMP/kept.onnx");
  ASSERT_EQ(again.code, 0) << again.err;
  ASSERT_EQ(finish(folder, line + "whole.onnx").code, 0);
  EXPECT_TRUE(read_file(folder / "kept.onnx") == read_file(folder / "whole.onnx"));
}

TEST(TheTrainedModel, OfAStoppedRunIsNotLostEither) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "o.unfinished.onnx");
  fs::create_directory(folder / "o.unfinished");  // of another run
  Process process(folder, "tandem", words(digits + "--epochs 1000000 --json --output TMP/o.onnx", folder.text()));
  process.wait_for_output("\"event\":\"step\"");
  process.signal(SIGTERM);
  const Outcome o = process.wait();
  EXPECT_EQ(o.code, 7) << o.err;
  EXPECT_NE(o.err.find("are kept in " + (folder / "o.unfinished-2").string()), std::string::npos) << o.err;
  EXPECT_EQ(finish(folder, "train --resume --steps 1 --run-dir TMP/o.unfinished-2 --output TMP/kept.onnx").code, 0);
}

struct Row {
  const char* name;
  const char* options;
  const char* says;  // of both
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }
class DryRun : public testing::TestWithParam<Row> {};
// x [N,4] times w [4,3] of external data.
TEST_P(DryRun, SaysWhatTheRunWouldSay) {
  const TemporaryFolder folder;
  test::Model m;
  onnx::TensorProto w;
  w.set_name("w");
  w.set_data_type(onnx::TensorProto::FLOAT);
  w.add_dims(4);
  w.add_dims(3);
  w.set_data_location(onnx::TensorProto::EXTERNAL);
  auto& location = *w.add_external_data();
  location.set_key("location");
  location.set_value("w.bin");
  m.input("x", "N,4").add(w).add(test::node("MatMul", {"x", "w"}, {"y"})).output("y");
  folder.write("m.onnx", m.bytes());
  folder.write("w.bin", std::string(48, '\1'));
  folder.write("taken.onnx.data", "of another model");
  folder.write("file", "");
  fs::create_directory(folder / "folder");
  const std::string line = std::string("exec TANDEM train TMP/m.onnx --data random,samples=8 --no-autotune --quiet ") + GetParam().options;
  const auto said = [&](const std::string& rest) {
    const Outcome o = Process::shell(folder, "said", line + rest).wait();
    return *GetParam().says ? concat(o.code, ' ', o.err) : concat(o.code);
  };
  const std::string dry = said(" --dry-run");
  EXPECT_FALSE(fs::exists(folder / "new")) << "a dry run makes nothing";
  EXPECT_NE(dry.find(GetParam().says), std::string::npos) << dry;
  EXPECT_EQ(said(""), dry);
}
INSTANTIATE_TEST_SUITE_P(
    Rows, DryRun,
    testing::Values(Row{"fine", "--output TMP/new/o.onnx --run-dir TMP/new/run", ""},
                    Row{"output_is_a_folder", "--output TMP/folder", "is a folder, expected a file's name"},
                    Row{"output_below_a_file", "--output TMP/file/o.onnx", "7 error: "},
                    Row{"run_folder_is_a_file", "--output TMP/o.onnx --run-dir TMP/file", "7 error: "},
                    Row{"run_folder_of_others", "--output TMP/o.onnx --run-dir TMP", "and no run of tandem"},
                    Row{"external_data_of_others", "--output TMP/taken.onnx", "belongs to another model"},
                    Row{"training_graph_below_a_file", "--output TMP/o.onnx --also-training-graph TMP/file/g.onnx", "7 error: "}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Room, IsAskedForBeforeTheRun) {
  const TemporaryFolder folder;
  for (const char* dry : {"", " --dry-run"}) {
    const Outcome o = Process::shell(folder, "room", "ulimit -f 100; exec TANDEM " + digits + "--quiet --output TMP/o.onnx" + dry).wait();
    EXPECT_EQ(o.code, 7) << o.err;
    EXPECT_NE(o.err.find("the trained model takes about "), std::string::npos) << o.err;
    EXPECT_FALSE(fs::exists(folder / "o.onnx"));
  }
}

}  // namespace
}  // namespace tandem
