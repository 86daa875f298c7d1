// Runs of one process and of several, killed at random moments until they are through; and two runs in one folder.
// CI kills a few; TANDEM_KILLS says how many of each row, TANDEM_SEED which moments (scripts/kill-test).
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <thread>

#include "base/file.h"
#include "tests/cli/broken_run.h"

namespace tandem {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

const std::string settings = "--validation-split 0.2 --batch-size 4 --epochs 5 --checkpoint-steps 3 --momentum 0.9 ";
const std::string options = "--data random,samples=60 " + settings;
// Files that are decoded, cropped and mixed by threads.
const std::string pictures = "--data images:TMP/pictures --augment crop,flip,jitter,mixup --workers 3 ";

// Twelve pictures of each of five classes, of different sizes.
void write_pictures(const TemporaryFolder& folder) {
  for (int i = 0; i < 60; ++i) {
    const int height = 10 + i % 7, width = 9 + i % 5;
    std::string file = concat("P5 ", width, ' ', height, " 255\n");
    for (int k = 0; k < height * width; ++k) file += static_cast<char>((k * (i % 5 + 1) * 3 + i) % 256);
    const std::string name = concat("pictures/", i % 5);
    std::filesystem::create_directories(folder / name);
    folder.write(concat(name, '/', i, ".pgm"), file);
  }
}

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

std::vector<pid_t> children_of(pid_t process) {
  std::ifstream file(concat("/proc/", process, "/task/", process, "/children"));
  std::vector<pid_t> list;
  for (pid_t child; file >> child;) list.push_back(child);
  return list;
}

// Whether it has ended, also where nobody has asked for its status yet.
bool has_ended(pid_t process) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == process;
}

struct Row {
  const char* name;
  const char* options;
  bool starter = true, ranks = false;  // who is killed; with several processes
  bool pictures = false;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class RandomKills : public testing::TestWithParam<Row> {};

TEST_P(RandomKills, CostNoBit) {
  const Row& row = GetParam();
  const int wanted_kills = from_environment("TANDEM_KILLS", 1);
  const auto seed = static_cast<unsigned>(from_environment("TANDEM_SEED", static_cast<int>(std::random_device()() % 1'000'000)));
  std::mt19937 random(seed);
  SCOPED_TRACE(concat("TANDEM_SEED=", seed));
  const TemporaryFolder folder;
  const std::map<std::string, std::string> environment{{"TMPDIR", folder.text()}};
  if (row.pictures) write_pictures(folder);
  const std::string line = (row.pictures ? pictures + settings : options) + row.options;
  const BrokenRun whole(folder, "whole", line);
  const auto begun = Clock::now();
  const Outcome unbroken = whole.start(environment).wait();
  const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  ASSERT_EQ(unbroken.code, 0) << unbroken.err;
  const Result wanted = whole.result();

  int kills = 0, resumed = 0, runs = 0, waits = 0;
  std::int64_t step = 0;
  while (kills < wanted_kills) {
    const BrokenRun run(folder, concat("run", ++runs), line);
    for (;;) {
      Process process = run.start(environment);
      const auto end = Clock::now() + std::chrono::duration<double>(seconds * std::uniform_real_distribution<double>(0, 1)(random));
      while (kills < wanted_kills && Clock::now() < end && !has_ended(process.id())) std::this_thread::sleep_for(1ms);
      if (kills < wanted_kills && !has_ended(process.id())) {
        std::vector<pid_t> victims = children_of(process.id());
        if (!row.ranks) victims.clear();
        if (row.ranks && !row.starter && !victims.empty()) victims = {victims[random() % victims.size()]};
        if (row.starter) victims.insert(victims.begin(), process.id());
        for (const pid_t victim : victims) ::kill(victim, SIGKILL);
        kills += !victims.empty();
      }
      const Outcome o = process.wait();
      const std::int64_t now = run.step();  // fails where no checkpoint is whole
      EXPECT_GE(now, step) << "the run has lost what it had";
      step = now;
      if (o.code == 0) break;
      resumed += step > 0;
      // Ranks that have lost their starter may still be ending, and write their checkpoint; nothing else refuses the folder.
      const bool refused =
          o.err.find("a run is going on there (process ") != std::string::npos || o.err.find("holds a run: --resume") != std::string::npos;
      ASSERT_TRUE(o.code == 137 || o.code == 6 || refused) << o.code << ' ' << o.err;
      if (refused) {
        ASSERT_LT(++waits, 200) << "ranks go on without their starter";
        std::this_thread::sleep_for(50ms);
      }
    }
    EXPECT_TRUE(run.result() == wanted) << "other results";
    EXPECT_EQ(run.leftovers(), std::vector<std::string>());
    step = 0;
  }
  std::cout << row.name << ": " << kills << " kills in " << runs << " runs, " << resumed
            << " starts from a checkpoint, TANDEM_SEED=" << seed << '\n';
}

INSTANTIATE_TEST_SUITE_P(Rows, RandomKills,
                         testing::Values(Row{"one", "--devices cpu:0"}, Row{"pictures", "--devices cpu:0", true, false, true}, Row{"two_the_starter", "--devices cpu:0-1 --processes 2"},
                                         Row{"two_a_rank", "--devices cpu:0-1 --processes 2", false, true},
                                         Row{"two_all", "--devices cpu:0-1 --processes 2", true, true},
                                         Row{"two_all_in_parts", "--devices cpu:0-1 --processes 2 --parallel zero=3", true, true},
                                         Row{"three_a_rank_in_parts", "--devices cpu:0-2 --processes 3 --parallel zero=1", false, true},
                                         Row{"four_the_starter", "--devices cpu:0-3 --processes 4"},
                                         Row{"four_a_rank", "--devices cpu:0-3 --processes 4", false, true},
                                         Row{"four_all", "--devices cpu:0-3 --processes 4", true, true}),
                         [](const auto& info) { return std::string(info.param.name); });

std::string this_host() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// Of one process each, or of several.
class TwoRunsInOneFolder : public testing::TestWithParam<Row> {};

TEST_P(TwoRunsInOneFolder, TheSecondIsRefusedByPidAndHost) {
  const std::string row = GetParam().options;
  const TemporaryFolder folder;
  const BrokenRun run(folder, "run", options + row), longer(folder, "run", options + row + " --epochs 1000000");
  Process first = longer.start();
  wait_for_file(run.checkpoint());
  const pid_t holder = GetParam().ranks ? children_of(first.id()).at(0) : first.id();
  for (const char* what : {"", " --overwrite"}) {
    const Outcome o = BrokenRun(folder, "run", options + row + what).start().wait();
    EXPECT_EQ(o.code, 7) << o.err;
    EXPECT_NE(o.err.find(concat(": a run is going on there (process ", holder, " on ", this_host(), ")")), std::string::npos) << o.err;
  }
  first.signal(SIGINT);
  const Outcome o = first.wait();
  EXPECT_EQ(o.code, 75) << o.err;
  const std::int64_t step = run.step();
  EXPECT_GT(step, 0);
  const Outcome resumed = BrokenRun(folder, "run", options + row + concat(" --epochs 1000000 --steps ", step + 1)).start().wait();
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(run.step(), step + 1);
}

TEST_P(TwoRunsInOneFolder, OfTwoStartedAtOnceOneTrains) {
  const TemporaryFolder folder;
  const BrokenRun whole(folder, "whole", options + GetParam().options), run(folder, "run", options + GetParam().options);
  ASSERT_EQ(whole.start().wait().code, 0);
  Process first = run.start(), second = run.start();
  Outcome won = first.wait(), refused = second.wait();
  if (won.code != 0) std::swap(won, refused);
  EXPECT_EQ(won.code, 0) << won.err;
  // 2: it came when the other was through.
  EXPECT_TRUE(refused.code == 7 || (refused.code == 2 && refused.err.find("holds a run") != std::string::npos))
      << refused.code << ' ' << refused.err;
  EXPECT_TRUE(run.result() == whole.result()) << "other results";
  EXPECT_EQ(run.leftovers(), std::vector<std::string>());
}

INSTANTIATE_TEST_SUITE_P(Rows, TwoRunsInOneFolder,
                         testing::Values(Row{"one_process", "--devices cpu:0"}, Row{"two_processes", "--devices cpu:0-1 --processes 2", true, true}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem
