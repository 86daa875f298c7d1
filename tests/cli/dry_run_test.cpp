// `train --dry-run` fails where the run would: it makes all plans that this needs.
#include "tests/cli/process.h"
#include "tests/importer/model_builder.h"

namespace tandem {
namespace {

using test::filled_tensor;
using test::node;

test::Model normalized(const std::string& n) {
  test::Model m;
  m.input("x", n + ",3")
      .output("y")
      .add(filled_tensor("w", {3, 4}))
      .add(filled_tensor("g", {4}, 1))
      .add(filled_tensor("b", {4}, 0))
      .add(filled_tensor("mean", {4}, 0))
      .add(filled_tensor("variance", {4}, 1));
  m.add(node("MatMul", {"x", "w"}, {"u"})).add(node("BatchNormalization", {"u", "g", "b", "mean", "variance"}, {"y"}));
  return m;
}
// Samples meet: the file is for its own batch alone.
test::Model by_the_largest() {
  test::Model m;
  m.input("x", "4,3").output("y").add(filled_tensor("w", {3, 4})).add(node("MatMul", {"x", "w"}, {"u"}));
  m.add(node("ReduceMax", {"u"}, {"top"}, {{"axes", std::vector<std::int64_t>{0}}, {"keepdims", std::int64_t{1}}}))
      .add(node("Sub", {"u", "top"}, {"y"}));
  return m;
}

struct Row {
  const char* name;
  test::Model model;
  std::string options;
  int code;
};

// A file's own training step is followed by plan as by a dry run.
TEST(PlansOfARun, AreThoseThatPlanShows) {
  const TemporaryFolder folder;
  const std::string batch = "--batch-size 4 --devices cpu ";
  const Outcome made =
      run_tandem(words("train MODELS/mlp.onnx --data random,samples=4 --optimizer adam --steps 1 --export-training-info "
                       "--no-autotune --init he-normal --output TMP/own.onnx " + batch, folder.text()));
  ASSERT_EQ(made.code, 0) << made.err;
  for (const std::string options :
       {"", "--optimizer sgd ", "--loss softmax-cross-entropy ", "--optimizer lion --loss mse --dense-labels "}) {
    const Outcome plan = run_tandem(words("plan TMP/own.onnx --format summary " + batch + options, folder.text())),
                  dry = run_tandem(words("train TMP/own.onnx --dry-run --data random,samples=4 --quiet " + batch + options, folder.text()));
    EXPECT_EQ(plan.code, 0) << plan.err;
    EXPECT_EQ(dry.code, 0) << dry.err;
    for (const char* what : {"\n  loss ", "\n  optimizer "}) {
      const auto line = [&](const std::string& text) {
        return text.substr(text.find(what) + 1, text.find('\n', text.find(what) + 1) - text.find(what));
      };
      EXPECT_EQ(line(plan.out), line(dry.out)) << options;
    }
  }
  EXPECT_NE(run_tandem(words("plan TMP/own.onnx --format summary " + batch, folder.text())).out.find("optimizer       adam"),
            std::string::npos);
}

TEST(PlansOfARun, AreMadeByADryRunToo) {
  const TemporaryFolder folder;
  const std::string two = "--devices cpu:0-1 ", batch = "--batch-size 4 --init he-normal --no-autotune --run-dir none ";
  const Row rows[] = {
      {"a last batch of one over two devices", normalized("N"), two + batch + "--sync-batch-norm --data random,samples=5", 0},
      {"a last batch of two over three devices, the first without samples", normalized("N"),
       "--devices cpu:0-2 --slice-weights 0,1,1 " + batch + "--sync-batch-norm --data random,samples=6", 0},
      {"whole batches of what is for one batch alone", by_the_largest(), batch + "--data random,samples=8", 0},
      {"a last batch of another size", by_the_largest(), batch + "--data random,samples=9", 3},
      {"a measure in batches of another size", by_the_largest(),
       batch + "--eval-batch-size 2 --validation-split 0.5 --data random,samples=8", 3}};
  for (const Row& row : rows) {
    folder.write("m.onnx", row.model.bytes());
    const Outcome run = run_tandem(words("train TMP/m.onnx --overwrite --output TMP/o.onnx " + row.options, folder.text()));
    const Outcome dry = run_tandem(words("train TMP/m.onnx --dry-run " + row.options, folder.text()));
    EXPECT_EQ(run.code, row.code) << row.name << ": " << run.err;
    EXPECT_EQ(dry.code, row.code) << row.name << ": " << dry.err;
    if (row.code == 0) continue;
    EXPECT_EQ(dry.err.substr(dry.err.find("error: ")), run.err.substr(run.err.find("error: "))) << row.name;
  }
}

}  // namespace
}  // namespace tandem
