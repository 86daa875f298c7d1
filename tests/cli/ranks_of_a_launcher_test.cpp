// Ranks that one program starts: how they end with it.
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "tests/cli/rank_runs.h"
#include "trainer/checkpoint.h"

namespace tandem::rank_tests {
namespace {

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
  Process launcher(folder, "launcher", words(forever + "--devices cpu:0-2 --run-dir TMP/run --processes 3", folder.text()),
                   {{"TMPDIR", temporary.text()}});
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
  std::vector<std::string> line =
      words(concat(TANDEM_PROGRAM, ' ', forever, "--quiet --devices cpu:0-1 --run-dir TMP/run --processes 2"), folder.text());
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

// A rank is killed: all go on from the last checkpoint, to the bits of a run that lost none.
TEST(RanksOfALauncher, AreStartedAgain) {
  const TemporaryFolder folder;
  const std::string line = concat("train MODELS/mlp.onnx ", digits, "--batch-size 50 --epochs 60 --momentum 0.9 --devices cpu:0-1 ");
  const Outcome whole = Process(folder, "whole", words(line + "--run-dir none --output TMP/whole.onnx", folder.text())).wait();
  ASSERT_EQ(whole.code, 0) << whole.err;
  Process launcher(folder, "launcher",
                   words(line + "--processes 2 --restart 2 --rank-timeout 3 --run-dir TMP/run --output TMP/out.onnx", folder.text()));
  wait_for_file(folder / "run/last.checkpoint");
  const std::vector<int> ranks = children_of(launcher.id());
  ASSERT_EQ(ranks.size(), 2u);
  ::kill(ranks[1], SIGKILL);
  const Outcome o = launcher.wait();
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.err.find("note: rank 1 was ended by signal 9: restart 1 of 2, from the last checkpoint"), std::string::npos) << o.err;
  EXPECT_TRUE(read_file(folder / "out.onnx") == read_file(folder / "whole.onnx")) << "the weights differ";
}

TEST(RanksOfALauncher, AreStartedAgainInAFolderAlone) {
  const std::string line = "train MODELS/mlp.onnx --data synthetic:digits --output TMP/out.onnx --devices cpu:0-1 --restart 1 ";
  const TemporaryFolder folder;
  for (const auto& [more, want] :
       {std::pair{"--run-dir TMP/run", "--restart 1 needs --processes"}, {"--processes 2 --run-dir none", "--restart 1 needs --run-dir"}}) {
    const Outcome o = run_tandem(words(line + more, folder.text()));
    EXPECT_EQ(o.code, 2);
    EXPECT_NE(o.err.find(want), std::string::npos) << o.err;
  }
}

}  // namespace
}  // namespace tandem::rank_tests
