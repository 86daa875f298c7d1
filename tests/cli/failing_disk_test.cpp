// A run whose Nth call to the disk fails, or that dies there, for every N: tests/faults/failing_calls.cpp does that.
// CI tries a few N of each fault; TANDEM_FAULT_TRIES=all tries all, as scripts/kill-test does.
#include <cstdlib>
#include <iostream>

#include "tests/cli/broken_run.h"
#include "trainer/file.h"

namespace tandem {
namespace {

constexpr const char* of_an_earlier_run = "of an earlier run";

// Two epochs of one step, each measured; with a checkpoint of the best.
const std::string options = "--data random,samples=8 --validation-split 0.5 --batch-size 4 --epochs 2 --momentum 0.9 --devices cpu:0";

struct Fault {
  const char* name;
  bool kills = false, harmless = false;
};
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

class FailingDisk : public testing::TestWithParam<Fault> {
 protected:
  void SetUp() override {
#ifndef TANDEM_FAILING_CALLS
    GTEST_SKIP() << "a library to preload does not go with a sanitizer";
#endif
  }

  // The run in an empty folder but for an output of an earlier one. `call`: where the fault happens; 0: nowhere.
  static BrokenRun fresh(const TemporaryFolder& folder) {
    std::filesystem::remove_all(folder / "work");
    BrokenRun run(folder, "work", options);
    folder.write("work/out.onnx", of_an_earlier_run);
    return run;
  }

  static Outcome broken(const BrokenRun& run, const TemporaryFolder& folder, const char* fault, int call) {
#ifdef TANDEM_FAILING_CALLS
    return run.start({{"LD_PRELOAD", TANDEM_FAILING_CALLS}, {"TANDEM_FAULT_BELOW", run.folder()}, {"TANDEM_FAULT", fault}, {"TANDEM_FAULT_CALL", text_of(call)},
                      {"TANDEM_FAULT_LOG", call == 0 ? (folder / "log").string() : ""}})
        .wait();
#endif
    return {};
  }

  // Every N, or so many of them.
  static std::vector<int> tries(int calls) {
    const char* asked = std::getenv("TANDEM_FAULT_TRIES");
    const int count = asked ? std::string(asked) == "all" ? calls : std::atoi(asked) : 5;
    std::vector<int> list;
    for (int i = 0; i < count; ++i) list.push_back(1 + static_cast<int>((i + 0.5) * calls / count));
    return list;
  }
};

TEST_P(FailingDisk, CostsNoBit) {
  const Fault& fault = GetParam();
  const TemporaryFolder folder;
  const BrokenRun whole = fresh(folder);
  const Outcome unbroken = broken(whole, folder, "", 0);
  ASSERT_EQ(unbroken.code, 0) << unbroken.err;
  const Result wanted = whole.result();
  const std::string log = read_file(folder / "log");
  const int calls = static_cast<int>(std::count(log.begin(), log.end(), '\n'));
  ASSERT_GT(calls, 100) << "the calls are not seen";

  std::int64_t before = 0;
  int resumed = 0;
  for (const int call : tries(calls)) {
    SCOPED_TRACE(concat(fault.name, " at call ", call, " of ", calls));
    const BrokenRun run = fresh(folder);
    const Outcome o = broken(run, folder, fault.name, call);
    if (fault.harmless)
      EXPECT_EQ(o.code, 0) << o.err;
    else if (fault.kills)
      EXPECT_EQ(o.code, 137) << o.err;
    else
      EXPECT_TRUE(o.code == 0 || o.code == 7) << o.code << ' ' << o.err;
    EXPECT_TRUE(o.code == 0 || o.code == 137 || o.err.find("error: ") != std::string::npos) << "it fails without a word";

    const std::string output = read_file(run.output());
    EXPECT_TRUE(output == wanted.output || (output == of_an_earlier_run && o.code != 0)) << "the output is neither the old one nor the new one";
    const std::int64_t step = run.step();  // fails where no checkpoint is whole
    if (fault.kills) {
      EXPECT_GE(step, before) << "an older checkpoint than one killed earlier has";
      before = step;
    }
    if (o.code != 0) {
      ++resumed;
      const Outcome again = run.start().wait();
      ASSERT_EQ(again.code, 0) << again.err;
    }
    EXPECT_TRUE(run.result() == wanted) << "other results";
    EXPECT_EQ(run.temporaries(), std::vector<std::string>());
  }
  std::cout << fault.name << ": " << tries(calls).size() << " of " << calls << " calls tried, " << resumed << " runs taken up again\n";
  EXPECT_EQ(resumed > 0, !fault.harmless);
}

INSTANTIATE_TEST_SUITE_P(Faults, FailingDisk,
                         testing::Values(Fault{"eio"}, Fault{"enospc"}, Fault{"full"}, Fault{"dead"}, Fault{"eintr", false, true},
                                         Fault{"short", false, true}, Fault{"kill", true}, Fault{"torn", true}, Fault{"cut", true}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem
