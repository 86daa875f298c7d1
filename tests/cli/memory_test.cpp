// What a training process takes of the machine's memory, against what the plan says.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graph/json.h"
#include "tests/cli/run_tandem.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/file.h"

namespace tandem {
namespace {

struct Child {
  int status = -1;
  std::int64_t peak_bytes = 0;  // largest resident set
};

Child run_program(const std::vector<std::string>& arguments, const std::string& output) {
  std::vector<char*> argv{const_cast<char*>(TANDEM_PROGRAM)};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, TANDEM_PROGRAM, &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return {};
  Child child;
  rusage usage{};
  if (wait4(pid, &child.status, 0, &usage) == pid) child.peak_bytes = 1024LL * usage.ru_maxrss;
  return child;
}

// A line's event of `train --json`.
Json event(const std::string& lines, const std::string& name) {
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);)
    if (const Json json = Json::parse(line); json.at("event").text() == name) return json;
  return {};
}

// docs/benchmarks.md states these: the program, its libraries and generated kernels; and one copy of the weights while a
// file is written.
constexpr std::int64_t base = 64 << 20;
constexpr double tolerance = 1.1;

TEST(Memory, OfTheProcessIsThePlansArenasAndAFixedBase) {
#ifdef TANDEM_SANITIZED
  GTEST_SKIP() << "a sanitizer's own memory cannot be told from the program's";
#endif
  const TemporaryFolder folder;
  const std::string line =
      "train MODELS/resnet18.onnx --data random,samples=8 --batch-size 4 --devices cpu:0 --steps 2 --no-autotune --json --quiet "
      "--run-dir TMP/run --output TMP/trained.onnx";
  const Child child = run_program(words(line, folder.text()), folder.text() + "/events");
  ASSERT_TRUE(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0) << child.status;
  const Json done = event(read_file(folder / "events"), "done");
  const std::int64_t predicted = done.at("predicted_peak_bytes").integer();
  EXPECT_EQ(done.at("peak_bytes").integer(), predicted);
  const std::int64_t weights = static_cast<std::int64_t>(std::filesystem::file_size(folder / "trained.onnx"));
  EXPECT_LT(static_cast<double>(child.peak_bytes), tolerance * static_cast<double>(predicted) + base + weights);
  EXPECT_GT(static_cast<double>(child.peak_bytes), static_cast<double>(predicted) / tolerance);
}

}  // namespace
}  // namespace tandem
