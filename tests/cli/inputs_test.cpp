// Inputs that hold their samples elsewhere than first, or none, on the command line: what data and options are taken for them.
#include "data/npy.h"
#include "data/zip.h"
#include "tests/cli/run_tandem.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

using test::filled_tensor, test::node;

Tensor counted(const Shape& shape, int classes = 0) {
  Tensor t(TensorType{classes > 0 ? DType::int64 : DType::float32, shape});
  for (std::int64_t i = 0; i < shape.elements(); ++i)
    if (classes > 0)
      t.write<std::int64_t>()[static_cast<std::size_t>(i)] = i % classes;
    else
      t.write<float>()[static_cast<std::size_t>(i)] = static_cast<float>(i % 13) / 13;
  return t;
}

std::string npz(const std::vector<std::pair<std::string, Tensor>>& arrays) {
  std::string bytes;
  ZipWriter zip([&](std::string_view part) { bytes += part; });
  for (const auto& [name, values] : arrays) zip.add(name + ".npy", npy_of(values));
  zip.finish();
  return bytes;
}

// What the rows below name: files.
void write_files(const TemporaryFolder& folder) {
  test::Model scaled;  // by s, which is as long as a batch of 4
  scaled.input("x", "N,3").input("s", "4").add(filled_tensor("w", {3, 4})).add(node("MatMul", {"x", "w"}, {"h"}));
  folder.write("scaled.onnx", scaled.add(node("Mul", {"h", "s"}, {"y"})).output("y").bytes());
  test::Model steps;  // first, and as many as the data has
  steps.input("x", "T,N,3").add(filled_tensor("W", {1, 12, 3})).add(filled_tensor("R", {1, 12, 4})).add(test::int_tensor("one", {1}, {1}));
  steps.add(node("GRU", {"x", "W", "R"}, {"Y"}, {{"hidden_size", std::int64_t{4}}})).add(node("Squeeze", {"Y", "one"}, {"y"})).output("y");
  folder.write("steps.onnx", steps.bytes());
  test::Model one;
  one.input("x", "3").add(filled_tensor("w", {3, 4})).add(node("MatMul", {"x", "w"}, {"y"})).output("y");
  folder.write("one.onnx", one.bytes());
  const Tensor x = counted({8, 3}), y = counted({8}, 4);
  folder.write("rows.npz", npz({{"x", x}, {"s", counted({8})}, {"y", y}}));
  folder.write("own.npz", npz({{"x", x}, {"s", counted({4})}, {"y", y}}));
  folder.write("plain.npz", npz({{"x", x}, {"y", y}}));
  folder.write("steps.npz", npz({{"x", counted({8, 5, 3})}, {"y", counted({8, 5}, 4)}}));
  folder.write("turned.npz", npz({{"x", counted({5, 8, 3})}, {"y", counted({8, 5}, 4)}}));
  folder.write("s.npy", npy_of(counted({4})));
}

struct InputRow {
  const char *command, *model, *options;
  int code;
  const char* says;
};
void PrintTo(const InputRow& row, std::ostream* out) { *out << row.command << ' ' << row.model << ' ' << row.options; }

class InputOptions : public testing::TestWithParam<InputRow> {};
TEST_P(InputOptions, AreTaken) {
  const InputRow& row = GetParam();
  const TemporaryFolder folder;
  write_files(folder);
  const Outcome o = run_tandem(words(concat(row.command, " TMP/", row.model, " --no-autotune ", row.options), folder.text()));
  EXPECT_EQ(o.code, row.code) << o.err;
  EXPECT_NE((o.out + o.err).find(row.says), std::string::npos) << o.out << o.err;
}
// clang-format off
INSTANTIATE_TEST_SUITE_P(All, InputOptions, testing::Values(
    InputRow{"predict", "scaled.onnx", "--data npz:TMP/rows.npz --batch-size 4 --output TMP/p.npy", 4, "it holds no samples, so its array is of that shape"},
    InputRow{"predict", "scaled.onnx", "--data npz:TMP/own.npz --batch-size 4 --devices cpu:0-1 --output TMP/p.npy", 0, "y float32[8,4]"},
    InputRow{"predict", "scaled.onnx", "--data npz:TMP/plain.npz --output TMP/p.npy", 4, "or --set s=VALUE gives one"},
    InputRow{"predict", "scaled.onnx", "--data npz:TMP/plain.npz --set s=1|2|3|4 --output TMP/p.npy", 0, "y float32[8,4]"},
    InputRow{"predict", "scaled.onnx", "--data npz:TMP/plain.npz --set s=TMP/s.npy --output TMP/p.npy", 0, "y float32[8,4]"},
    InputRow{"predict", "scaled.onnx", "--data npz:TMP/plain.npz --set s=1|2 --output TMP/p.npy", 3, "input 's' is given the value int64[2], expected float32[4] or a single number"},
    InputRow{"predict", "scaled.onnx", "--data npz:TMP/plain.npz --set s --output TMP/p.npy", 2, "--set s: expected INPUT=NUMBER"},
    InputRow{"plan", "scaled.onnx", "--batch-axis s=x", 2, "--batch-axis s: 'x' is not a whole number"},
    InputRow{"plan", "steps.onnx", "", 3, "axis 0 has no size: give one by --dim T=SIZE"},
    InputRow{"predict", "steps.onnx", "--data npz:TMP/steps.npz --output TMP/p.npy", 0, "y float32[8,5,4]"},
    InputRow{"train", "steps.onnx", "--dim T=5 --data npz:TMP/turned.npz --output TMP/o.onnx", 4, "every array has them along axis 0: of each sample 'x' takes float32[5,3]"},
    InputRow{"train", "one.onnx", "--data npz:TMP/plain.npz --batch-size 1 --output TMP/o.onnx", 0, "the file is taken to be for one sample"},
    InputRow{"plan", "one.onnx", "--batch-size 4", 3, "takes --batch-size 1, or as many --micro-batches as the batch has samples"}));
// clang-format on

TEST(InputOptions, AreRememberedByTheTrainedFile) {
  const TemporaryFolder folder;
  write_files(folder);
  const auto run = [&](const std::string& line) { return run_tandem(words(line, folder.text())); };
  const std::string plain = " --no-autotune --batch-size 4 --data npz:TMP/plain.npz ";
  const Outcome trained = run("train TMP/scaled.onnx --set s=1|2|3|0.5 --epochs 1 --run-dir TMP/run --output TMP/o.onnx" + plain);
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Outcome measured = run("evaluate TMP/o.onnx" + plain);
  EXPECT_EQ(measured.code, 0) << measured.err;
  EXPECT_NE(measured.err.find("note: set is s=1|2|3|0.5, as the model was trained (--set overrules it)"), std::string::npos)
      << measured.err;
  const Outcome resumed = run("train --resume --run-dir TMP/run --epochs 2");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
}

}  // namespace
}  // namespace tandem
