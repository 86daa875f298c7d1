// A run whose Nth call to the disk fails, or that dies there, for every N: tests/faults/failing_calls.cpp does that.
// CI tries a few N of each fault; TANDEM_FAULT_TRIES=all tries all, as scripts/kill-test does.
#include <algorithm>
#include <iostream>
#include <sstream>

#include "base/file.h"
#include "tests/cli/broken_run.h"
#include "tests/cli/faults.h"

namespace tandem {
namespace {

// Two epochs of one step, each measured; with a checkpoint of the best.
const std::string options =
    "--data random,samples=8 --validation-split 0.5 --batch-size 4 --epochs 2 --steps 2 --momentum 0.9 --devices cpu:0";

struct Fault {
  const char* name;
  bool kills = false, harmless = false;
  bool once = false;  // one call fails: the run may go on without what it could not write
  bool reads = false;  // only reads fail so: they are tried again
};
constexpr Fault faults[] = {{"eio", false, false, true},
                            {"enospc", false, false, true},
                            {"full"},
                            {"dead"},
                            {"eintr", false, true},
                            {"short", false, true},
                            {"stale", false, true, false, true},
                            {"eio_read", false, true, false, true},
                            {"kill", true},
                            {"torn", true},
                            {"cut", true}};

enum class Kind { begun, with_external_data, resumed };  // external: the model's weights lie in a file beside it
struct Row {
  Fault fault;
  Kind kind;
};
std::string name_of(const Row& row) {
  static constexpr const char* ends[] = {"", "_with_external_data", "_resumed"};
  return concat(row.fault.name, ends[static_cast<int>(row.kind)]);
}
void PrintTo(const Row& row, std::ostream* out) { *out << name_of(row); }

std::vector<Row> rows() {
  std::vector<Row> list;
  for (const Kind kind : {Kind::begun, Kind::with_external_data, Kind::resumed})
    for (const Fault& fault : faults)
      if (!fault.reads || kind == Kind::resumed) list.push_back({fault, kind});
  return list;
}

class FailingDisk : public testing::TestWithParam<Row> {
 protected:
  void SetUp() override {
#ifndef TANDEM_FAILING_CALLS
    GTEST_SKIP() << "a library to preload does not go with a sanitizer";
#endif
  }

  static bool external() { return GetParam().kind == Kind::with_external_data; }

  // The run in a folder that holds the model of an earlier one, where this one writes its own; or the first step of this one.
  static BrokenRun fresh(const TemporaryFolder& folder) {
    std::filesystem::remove_all(folder / "work");
    std::filesystem::copy(folder / "earlier", folder / "work", std::filesystem::copy_options::recursive);
    if (GetParam().kind != Kind::resumed) std::filesystem::remove_all(folder / "work/run");
    return {folder, "work", options, external()};
  }

  // `call`: where the fault happens; 0: nowhere.
  static Outcome broken(const BrokenRun& run, const TemporaryFolder& folder, const char* fault, int call) {
    return run.start(with_fault(run.folder(), fault, call, folder / "log")).wait();
  }

  // Of a log's calls those that the fault is for.
  static std::vector<int> numbers(const std::string& log, const Fault& fault) {
    std::vector<int> list;
    std::istringstream lines(log);
    int number = 0;
    for (std::string call, line; lines >> number >> call && std::getline(lines, line);)
      if (!fault.reads || call.find("read") != std::string::npos) list.push_back(number);
    return list;
  }
};

TEST_P(FailingDisk, CostsNoBit) {
  const Fault& fault = GetParam().fault;
  const TemporaryFolder folder;
  const BrokenRun earlier(folder, "earlier", options + (GetParam().kind == Kind::resumed ? " --steps 1" : " --steps 1 --lr 0.5"),
                          external());
  ASSERT_EQ(earlier.start().wait().code, 0);
  const std::string old = values_of(earlier.output());
  const BrokenRun whole = fresh(folder);
  const Outcome unbroken = broken(whole, folder, "", 0);
  ASSERT_EQ(unbroken.code, 0) << unbroken.err;
  const Result wanted = whole.result();
  ASSERT_NE(wanted.output, old);
  const std::string log = read_file(folder / "log");
  const int calls = static_cast<int>(std::count(log.begin(), log.end(), '\n'));
  ASSERT_GT(calls, 100) << "the calls are not seen";
  const std::vector<int> those = numbers(log, fault);
  ASSERT_FALSE(those.empty());

  std::int64_t before = fresh(folder).step();
  int resumed = 0;
  for (const int nth : tried_calls(static_cast<int>(those.size()))) {
    const int call = those[static_cast<std::size_t>(nth - 1)];
    SCOPED_TRACE(concat(name_of(GetParam()), " at call ", call, " of ", calls));
    const BrokenRun run = fresh(folder);
    const Outcome o = broken(run, folder, fault.name, call);
    if (fault.harmless)
      EXPECT_EQ(o.code, 0) << o.err;
    else if (fault.kills)
      EXPECT_EQ(o.code, 137) << o.err;
    else
      EXPECT_TRUE(o.code == 0 || o.code == 7) << o.code << ' ' << o.err;
    EXPECT_TRUE(o.code == 0 || o.code == 137 || o.err.find("error: ") != std::string::npos) << "it fails without a word";

    const std::string output = values_of(run.output());
    EXPECT_TRUE(output == wanted.output || (output == old && o.code != 0))
        << "the output is neither the old model nor the new one: " << output;
    const std::int64_t step = run.step();  // fails where no checkpoint is whole
    if (fault.kills) {
      EXPECT_GE(step, before) << "an older checkpoint than one killed earlier has";
      before = step;
    }
    // What could not be written is said, and made up for by whoever goes on; what could not be removed goes with the next start.
    if (o.code != 0 || o.err.find("warning: ") != std::string::npos || !run.leftovers().empty()) {
      resumed += o.code != 0;
      const Outcome again = run.start().wait();
      ASSERT_EQ(again.code, 0) << again.err;
    }
    EXPECT_TRUE(run.result() == wanted) << "other results";
    EXPECT_EQ(run.leftovers(), std::vector<std::string>());
  }
  std::cout << name_of(GetParam()) << ": " << tried_calls(static_cast<int>(those.size())).size() << " of " << those.size()
            << " calls tried, " << resumed << " runs taken up again\n";
  if (!fault.once) EXPECT_EQ(resumed > 0, !fault.harmless);  // a run goes on without one of its checkpoints
}

INSTANTIATE_TEST_SUITE_P(Faults, FailingDisk, testing::ValuesIn(rows()), [](const auto& info) {
  return name_of(info.param);
});

}  // namespace
}  // namespace tandem
