// A machine with two NUMA nodes: what the program assumes is said, and computes what it computes elsewhere.
#include <gtest/gtest.h>

#include <fstream>

#include "base/cores.h"
#include "base/file.h"
#include "tests/cli/process.h"

namespace tandem {
namespace {

class TwoNodes : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<int> cores = usable_cores();
    if (cores.size() < 2) GTEST_SKIP() << "two nodes need two cores, one is here";
    for (const int node : {0, 1}) {
      const auto at = folder_ / concat("node", node);
      std::filesystem::create_directories(at);
      std::ofstream list(at / "cpulist");
      for (std::size_t i = 0; i < cores.size(); ++i)
        if ((i < cores.size() / 2) == (node == 0)) list << (i == 0 || i == cores.size() / 2 ? "" : ",") << cores[i];
    }
  }
  Outcome tandem(const std::string& line, bool two_nodes = true) const {
    std::map<std::string, std::string> environment;
    if (two_nodes) environment["TANDEM_NUMA"] = folder_.text();
    Process p(folder_, "run", words(line, folder_.text()), environment);
    return p.wait();
  }
  TemporaryFolder folder_;
};

TEST_F(TwoNodes, WhatIsAssumedIsSaid) {
  const std::string said = "on 2 NUMA nodes, its memory spread over them; cpu:0-1 has one for each node (--devices overrules it)";
  const std::string plan = "plan MODELS/mlp.onnx --batch-size 8 --no-autotune --format summary ";
  struct Row {
    std::string line;
    bool told;
  };
  for (const Row& row : {Row{plan, true}, {plan + "--devices cpu", true}, {plan + "--devices cpu:0", false},
                         {plan + "--devices cpu:0-1", false}, {plan + "--quiet", false}}) {
    const Outcome o = tandem(row.line);
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(o.err.find(said) != std::string::npos, row.told) << row.line << ": " << o.err;
  }
  EXPECT_EQ(tandem(plan, false).err.find("NUMA"), std::string::npos);
}

TEST_F(TwoNodes, ARunComputesTheSame) {
  for (const std::string devices : {"cpu", "cpu:0-1"}) {
    const std::string line = "train MODELS/mlp.onnx --data synthetic:digits,train=32,test=8 --batch-size 8 --epochs 1 --no-autotune "
                             "--overwrite --run-dir none --devices " + devices + " --output TMP/";
    for (const bool two : {false, true}) {
      const Outcome o = tandem(line + (two ? "two" : "one") + ".onnx", two);
      ASSERT_EQ(o.code, 0) << o.err;
    }
    EXPECT_EQ(read_file(folder_ / "one.onnx"), read_file(folder_ / "two.onnx")) << devices;
  }
}

}  // namespace
}  // namespace tandem
