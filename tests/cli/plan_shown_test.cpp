// What `tandem plan` tells of two plans (--diff) and of one thing in a plan (--explain).
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/cli/process.h"

namespace tandem {
namespace {

const std::string lenet = "plan MODELS/lenet.onnx --devices cpu:0-1 --batch-size 8 ";

struct PlanRow {
  const char* name;
  std::string line;  // TMP/a.plan is that of `lenet`, TMP/b.plan one with momentum
  int code;
  std::vector<std::string> says;  // on stdout, or on stderr where the code is above 1
};
class PlanShown : public testing::TestWithParam<PlanRow> {};
TEST_P(PlanShown, Rows) {
  const TemporaryFolder folder;
  const auto tandem = [&](const std::string& line) { return run_tandem(words(line, folder.text())); };
  ASSERT_EQ(tandem(lenet + "--format plan --output TMP/a.plan").code, 0);
  ASSERT_EQ(tandem(lenet + "--momentum 0.9 --format plan --output TMP/b.plan").code, 0);
  const Outcome o = tandem(GetParam().line);
  EXPECT_EQ(o.code, GetParam().code) << o.err;
  const std::string& text = o.code > 1 ? o.err : o.out;
  for (const std::string& said : GetParam().says) EXPECT_NE(text.find(said), std::string::npos) << "no '" << said << "' in " << text;
}
INSTANTIATE_TEST_SUITE_P(
    Rows, PlanShown,
    testing::Values(
        PlanRow{"equal_files", "plan TMP/a.plan --diff TMP/a.plan", 0, {"are equal: steps, kernels, memory and exchanges of 2 devices"}},
        PlanRow{"a_model_and_its_file", lenet + "--diff TMP/a.plan", 0, {"lenet.onnx and ", "are equal"}},
        PlanRow{"files", "plan TMP/a.plan --diff TMP/b.plan", 1,
                {"differ\n", "a.plan", "option momentum", "+  momentum/conv1.weight", "Steps of cpu:0-1: "}},
        PlanRow{"a_model_and_a_file", lenet + "--diff TMP/b.plan", 1, {"lenet.onnx", "momentum=0.9"}},
        PlanRow{"fewer_devices", "plan MODELS/lenet.onnx --devices cpu:0 --batch-size 8 --diff TMP/a.plan", 1,
                {"+  cpu:1", "bucket 0", "all_reduce"}},
        PlanRow{"json", "plan TMP/a.plan --diff TMP/b.plan --json", 1, {R"("equal":false)", R"("unit":"bytes")"}},
        PlanRow{"no_file", "plan TMP/a.plan --diff TMP/c.plan", 7, {"c.plan"}},
        PlanRow{"no_plan", "plan TMP/a.plan --diff MODELS/lenet.onnx", 3, {"lenet.onnx"}},
        PlanRow{"no_such_form", "plan TMP/a.plan --diff TMP/b.plan --format dot", 2, {"--format dot: --diff gives text, json or html"}},
        PlanRow{"a_node", lenet + "--explain conv1", 0,
                {"node conv1\n", "add_gradients", "Conv on cpu:0-1", "onednn.convolution", "parameter conv1.weight\n", "updated by"}},
        PlanRow{"a_fusion_that_no_kernel_has", lenet + "--explain relu2", 0,
                {"not fused", "InnerProductBackwardData (fc1, flatten, relu3) and ReluBackward (relu2):", "(fuse_activations)"}},
        PlanRow{"a_parameter", lenet + "--explain conv1.weight", 0, {"parameter conv1.weight", "bucket 1, all_reduce among cpu:0-1"}},
        PlanRow{"a_pattern_of_a_file", "plan TMP/a.plan --explain relu*", 0, {"node relu1\n", "node relu2\n", "node relu3\n", "one kernel of"}},
        PlanRow{"an_input", lenet + "--explain image", 0, {"value image\n", "sliced by samples", "read by"}},
        PlanRow{"explained_as_json", lenet + "--explain conv1 --json", 0, {R"("kind":"node","name":"conv1")"}},
        PlanRow{"nothing_of_that_name", lenet + "--explain conv9", 2, {"--explain 'conv9'", "did you mean 'conv"}},
        PlanRow{"both", "plan TMP/a.plan --diff TMP/b.plan --explain conv1", 2, {"exclude each other"}}),
    [](const auto& row) { return std::string(row.param.name); });

// The graph of predictions is a model that predicts the same.
TEST(PlanShown, TheGraphOfPredictionsPredictsTheSame) {
  const TemporaryFolder folder;
  const auto tandem = [&](const std::string& line) { return run_tandem(words(line, folder.text())); };
  const std::string data = "--data synthetic:digits,train=16,test=8 --no-autotune --quiet --batch-size 8 ";
  ASSERT_EQ(tandem("train MODELS/lenet.onnx " + data + "--init he-normal --steps 1 --output TMP/m.onnx").code, 0);
  const Outcome graph = tandem("plan TMP/m.onnx --inference --batch-size 8 --format onnx --output TMP/g.onnx");
  ASSERT_EQ(graph.code, 0) << graph.err;
  for (const std::string name : {"m", "g"}) {
    const Outcome o = tandem("predict TMP/" + name + ".onnx " + data + "--output TMP/" + name + ".npy");
    ASSERT_EQ(o.code, 0) << o.err;
  }
  EXPECT_EQ(read_file(folder / "m.npy"), read_file(folder / "g.npy"));
}

}  // namespace
}  // namespace tandem
