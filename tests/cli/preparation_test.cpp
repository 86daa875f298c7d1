// What a run finds out before it plans, and what a trained file tells of its training.
#include "base/file.h"
#include "data/npy.h"
#include "data/zip.h"
#include "kernels/cpu/backend.h"
#include "tests/cli/run_tandem.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

std::string npz(const std::vector<std::pair<std::string, Tensor>>& arrays) {
  std::string bytes;
  ZipWriter zip([&](std::string_view part) { bytes += part; });
  for (const auto& [name, values] : arrays) zip.add(name + ".npy", npy_of(values));
  zip.finish();
  return bytes;
}

struct EarlyRow {
  const char* options;
  int code;
  const char* err;
};
void PrintTo(const EarlyRow& row, std::ostream* out) {
  *out << row.options;
}

// The data is not there: whoever would open it before these are checked says so instead.
class Early : public testing::TestWithParam<EarlyRow> {};
TEST_P(Early, IsFoundBeforeDataAndPlans) {
  const TemporaryFolder folder;
  const std::string options = GetParam().options;
  const Outcome o = run_tandem(words("train MODELS/lenet.onnx --data npz:TMP/none.npz --output TMP/o.onnx " + options, folder.text()));
  EXPECT_EQ(o.code, GetParam().code) << o.err;
  EXPECT_NE(o.err.find(GetParam().err), std::string::npos) << o.err;
  EXPECT_EQ(o.err.find("planning"), std::string::npos) << o.err;
}
INSTANTIATE_TEST_SUITE_P(All, Early,
                         testing::Values(EarlyRow{"--init xavier", 2, "--init: unknown initialisation 'xavier'"},
                                         EarlyRow{"--epochs 0", 2, "training without end: give epochs or steps"},
                                         EarlyRow{"--lr -1", 2, "learning rate -1, expected a finite number of at least 0"},
                                         EarlyRow{"--loss softmax-cros-entropy", 2, "loss 'softmax-cros-entropy' is unknown, did you mean 'softmax-cross-entropy'?"},
                                         EarlyRow{"--freeze nosuch*", 2, "--freeze 'nosuch*': model 'lenet' has no parameter of that name"},
                                         EarlyRow{"--precision fp16", 5, "precision fp16 on device cpu:0: tandem trains in float16 on GPUs alone"},
                                         EarlyRow{"--momentum 2", 2, "momentum is 2, expected a number of at least 0 and below 1"},
                                         EarlyRow{"--loss-on fc3", 2, "--loss-on fc3: model 'lenet' computes no value of that name"},
                                         EarlyRow{"--class-axis 2", 2, "--class-axis 2: 'logits' is"}));

TEST(EarlyDevices, ThatAreNotThere) {
  const TemporaryFolder folder;
  const int count = cpu_backend().device_count();
  const Outcome o =
      run_tandem(words(concat("train MODELS/lenet.onnx --data npz:TMP/none.npz --output TMP/o.onnx --devices cpu:", count), folder.text()));
  EXPECT_EQ(o.code, 5) << o.err;
  EXPECT_NE(o.err.find(concat("device cpu:", count, " cannot be used: there are ", count, " cpu devices")), std::string::npos) << o.err;
}

TEST(Messages, NameTheOption) {
  const TemporaryFolder folder;
  test::Model m;
  m.input("x", "N,S").output("x");
  folder.write("m.onnx", m.bytes());
  const Outcome o = run_tandem(words("plan TMP/m.onnx", folder.text()));
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(o.err.find("input 'x' axis 1 has no size: give one by --dim S=SIZE"), std::string::npos) << o.err;
}

// [N,4] → MatMul w [4,3]
test::Model linear(const onnx::TensorProto& w) {
  test::Model m;
  m.input("x", "N,4").add(w).add(test::node("MatMul", {"x", "w"}, {"y"})).output("y");
  return m;
}
Tensor ramp(const Shape& shape) {
  Tensor t(TensorType{DType::float32, shape});
  float v = 0;
  for (float& x : t.write<float>()) x = 0.01F * ++v;
  return t;
}
const Tensor labels = Tensor::of<std::int64_t>({6}, {0, 1, 2, 0, 1, 2});
const std::vector<float> some{1, -2, 3, -4, 5, -6, 7, -8, 9, -1, 2, -3};

TEST(Preparation, IsKeptInTheFileAndUsed) {
  const TemporaryFolder folder;
  folder.write("m.onnx", linear(test::float_tensor("w", {4, 3}, some)).bytes());
  folder.write("d.npz", npz({{"x", ramp({6, 4})}, {"y", labels}}));
  const std::string data = " --data npz:TMP/d.npz --no-autotune ";
  const Outcome trained = run_tandem(words("train TMP/m.onnx" + data + "--normalize 0.1,0.25 --output TMP/t.onnx --quiet", folder.text()));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(ModelFile::read(folder / "t.onnx").metadata(),
            (std::map<std::string, std::string>{{"tandem.loss", "softmax-cross-entropy"}, {"tandem.normalize", "0.1,0.25"}}));

  const auto evaluated = [&](const std::string& rest) {
    return run_tandem(words("evaluate TMP/t.onnx --data npz:TMP/d.npz --json " + rest, folder.text()));
  };
  const auto loss = [&](const std::string& rest) { return Json::parse(evaluated(rest).out).at("loss").number(); };
  const double given = loss("--normalize 0.1,0.25"), none = loss("--normalize none");
  EXPECT_NE(given, none);
  EXPECT_EQ(loss(""), given);
  EXPECT_NE(evaluated("").err.find("note: normalize is 0.1,0.25, as the model was trained (--normalize overrules it, none for none)"),
            std::string::npos)
      << evaluated("").err;
  EXPECT_EQ(evaluated("--normalize 0.1,0.25").err.find("as the model was trained"), std::string::npos);

  // predict, and training further.
  for (const char* how : {"", "--normalize none"})
    ASSERT_EQ(
        run_tandem(words(concat("predict TMP/t.onnx --data npz:TMP/d.npz --output TMP/p", *how ? "2" : "1", ".npy ", how), folder.text()))
            .code,
        0);
  EXPECT_NE(read_file(folder / "p1.npy"), read_file(folder / "p2.npy"));
  const Outcome on = run_tandem(words("train TMP/t.onnx" + data + "--output TMP/t2.onnx", folder.text()));
  EXPECT_NE(on.err.find("note: normalize is 0.1,0.25"), std::string::npos) << on.err;
  EXPECT_EQ(ModelFile::read(folder / "t2.onnx").metadata().at("tandem.normalize"), "0.1,0.25");

  // A file that is to tell nothing.
  ASSERT_EQ(run_tandem(words("train TMP/t.onnx" + data + "--no-metadata --output TMP/t3.onnx --quiet", folder.text())).code, 0);
  EXPECT_TRUE(ModelFile::read(folder / "t3.onnx").metadata().empty());
}

TEST(Preparation, OfTheLossIsUsed) {
  const TemporaryFolder folder;
  folder.write("m.onnx", linear(test::float_tensor("w", {4, 3}, some)).bytes());
  folder.write("d.npz", npz({{"x", ramp({6, 4})}, {"y", ramp({6, 3})}}));
  ASSERT_EQ(
      run_tandem(words("train TMP/m.onnx --data npz:TMP/d.npz --no-autotune --loss mse --output TMP/t.onnx --quiet", folder.text())).code,
      0);
  const Outcome by_file = run_tandem(words("evaluate TMP/t.onnx --data npz:TMP/d.npz", folder.text()));
  const Outcome by_option = run_tandem(words("evaluate TMP/t.onnx --data npz:TMP/d.npz --loss mse", folder.text()));
  EXPECT_EQ(by_file.out, by_option.out);
  EXPECT_NE(by_file.err.find("note: loss is mse, as the model was trained (--loss overrules it)"), std::string::npos) << by_file.err;
}

TEST(Preparation, ThatCannotBeReadIsNamed) {
  const TemporaryFolder folder;
  test::Model m = linear(test::float_tensor("w", {4, 3}, some));
  auto& entry = *m.proto.add_metadata_props();
  entry.set_key("tandem.normalize");
  entry.set_value("0.1,-1");
  folder.write("m.onnx", m.bytes());
  folder.write("d.npz", npz({{"x", ramp({6, 4})}, {"y", labels}}));
  const Outcome o = run_tandem(words("evaluate TMP/m.onnx --data npz:TMP/d.npz", folder.text()));
  EXPECT_EQ(o.code, 3);
  EXPECT_NE(o.err.find("the model's metadata tandem.normalize: normalize '0.1,-1': a deviation of -1"), std::string::npos) << o.err;
}

// Labels, which predictions do not need, say nothing of such a plan.
TEST(Preparation, OfAPlanIsThatOfARun) {
  const TemporaryFolder folder;
  const Outcome predicts = run_tandem(words("plan MODELS/lenet.onnx --inference --data synthetic:digits --format json", folder.text()));
  EXPECT_EQ(predicts.code, 0) << predicts.err;
  EXPECT_NE(predicts.out.find(R"("mode":"inference")"), std::string::npos);
  EXPECT_NE(predicts.out.find(R"("dtype":"uint8")"), std::string::npos);  // the images come as they lie in the data
  const Outcome trains = run_tandem(words("plan MODELS/lenet.onnx --data synthetic:digits --class-weights balanced", folder.text()));
  EXPECT_EQ(trains.code, 0) << trains.err;
  EXPECT_NE(trains.err.find("note: balanced weights of classes come of data: the plan has 1 for each"), std::string::npos) << trains.err;
}

TEST(Preparation, TellsOfMetricsThatNothingMeasures) {
  const TemporaryFolder folder;
  folder.write("m.onnx", linear(test::float_tensor("w", {4, 3}, some)).bytes());
  folder.write("d.npz", npz({{"x", ramp({6, 4})}, {"y", labels}}));
  const auto told = [&](const std::string& rest) {
    return run_tandem(words("train TMP/m.onnx --data npz:TMP/d.npz --dry-run --quiet " + rest, folder.text())).err;
  };
  EXPECT_EQ(told("--metrics f1"),
            "warning: --metrics f1: they are measured on validation data, and there is none (--validation-split 0.1 holds a tenth out)\n");
  EXPECT_EQ(told("--metrics f1 --validation-split 0.5"), "");
}

TEST(Templates, WithoutWeightsStartByThemselves) {
  const TemporaryFolder folder;
  folder.write("d.npz", npz({{"x", ramp({6, 4})}, {"y", labels}}));
  const auto said = [&](const onnx::TensorProto& w, const std::string& options = "") {
    folder.write("m.onnx", linear(w).bytes());
    return run_tandem(words("train TMP/m.onnx --data npz:TMP/d.npz --no-autotune --output TMP/t.onnx " + options, folder.text())).err;
  };
  const std::string line =
      "note: the template holds no trained weights: they start as glorot-uniform (--init names another, --init keep takes the template's)";
  EXPECT_NE(said(test::dims_only("w", {4, 3})).find(line), std::string::npos);
  EXPECT_NE(said(test::filled_tensor("w", {4, 3}, 0)).find(line), std::string::npos);
  EXPECT_EQ(said(test::float_tensor("w", {4, 3}, some)).find("no trained weights"), std::string::npos);
  EXPECT_EQ(said(test::dims_only("w", {4, 3}), "--init he-normal").find("no trained weights"), std::string::npos);
  const std::string kept = said(test::filled_tensor("w", {4, 3}, 0), "--init keep");
  EXPECT_EQ(kept.find("no trained weights"), std::string::npos);
  EXPECT_NE(kept.find("all values are equal in w"), std::string::npos) << kept;
  // With a rectifier, and trained without a word about it.
  const Outcome lenet =
      run_tandem(words("train MODELS/lenet.onnx --data synthetic:digits,train=600,test=100 --lr 0.05 --momentum 0.9 --epochs 4 "
                       "--no-autotune --output TMP/t.onnx --json",
                       folder.text()));
  EXPECT_NE(lenet.err.find("they start as he-normal"), std::string::npos) << lenet.err;
  const std::string last = lenet.out.substr(lenet.out.rfind('\n', lenet.out.size() - 2) + 1);
  EXPECT_GT(Json::parse(last).at("accuracy").number(), 0.5) << last;
}

TEST(Arrays, AreFoundByTheInputsNames) {
  const TemporaryFolder folder;
  test::Model m;
  m.input("x", "N,4")
      .input("z", "N,4")
      .add(test::node("Sub", {"x", "z"}, {"d"}))
      .add(test::float_tensor("w", {4, 3}, some))
      .add(test::node("MatMul", {"d", "w"}, {"y"}))
      .output("y");
  folder.write("m.onnx", m.bytes());
  const Tensor zeros(TensorType{DType::float32, {6, 4}});
  const auto loss = [&](const std::vector<std::pair<std::string, Tensor>>& arrays) {
    folder.write("d.npz", npz(arrays));
    const Outcome o = run_tandem(words("evaluate TMP/m.onnx --data npz:TMP/d.npz --json", folder.text()));
    return o.code == 0 ? concat(Json::parse(o.out).at("loss").number()) : o.err;
  };
  EXPECT_NE(loss({{"x", ramp({6, 4})}, {"z", zeros}, {"y", labels}}), loss({{"x", zeros}, {"z", ramp({6, 4})}, {"y", labels}}));
  EXPECT_NE(loss({{"x", zeros}, {"y", labels}}).find("no array z for the model's input 'z'"), std::string::npos);
  EXPECT_NE(loss({{"a", zeros}, {"y", labels}}).find("expected arrays x, z and y"), std::string::npos);
  EXPECT_NE(
      loss({{"x", zeros}, {"z", zeros}, {"y", labels}, {"class_weight", zeros}}).find("holds class_weight, which is no array of samples"),
      std::string::npos);
}

TEST(Evaluate, ReadsTheFilesItUsesAndNoOthers) {
  const TemporaryFolder folder;
  const std::string header{"\0\0\x08\x03\0\0\0\x02\0\0\0\x1c\0\0\0\x1c", 16}, label_header{"\0\0\x08\x01\0\0\0\x02", 8};
  const auto write = [&](const std::string& stem) {
    folder.write(stem + "-images-idx3-ubyte", header + std::string(2 * 28 * 28, 'a'));
    folder.write(stem + "-labels-idx1-ubyte", label_header + std::string("\1\2", 2));
  };
  const auto evaluated = [&](const std::string& rest) {
    return run_tandem(words("evaluate MODELS/lenet.onnx --data idx:TMP " + rest, folder.text()));
  };
  write("t10k");
  EXPECT_NE(evaluated("").out.find(", test: 2 samples"), std::string::npos) << evaluated("").err;
  folder.write("train-images-idx3-ubyte", "broken");
  EXPECT_EQ(evaluated("").code, 0) << evaluated("").err;
  EXPECT_NE(evaluated("--split train").code, 0);
  write("train");
  EXPECT_NE(evaluated("--split train").out.find(", train: 2 samples"), std::string::npos);
  std::filesystem::remove(folder / "t10k-images-idx3-ubyte");
  EXPECT_NE(evaluated("").out.find(", train: 2 samples"), std::string::npos) << evaluated("").err;
}

}  // namespace
}  // namespace tandem
