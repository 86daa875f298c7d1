// A packed model: what is in its folder, the runtime alone on it (examples/train_packed.c), and the way back.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/file.h"
#include "data/npy.h"
#include "data/zip.h"
#include "runtime/safetensors.h"
#include "tests/cli/process.h"
#include "trainer/model.h"

namespace tandem {
namespace {

constexpr std::int64_t batch = 8, batches = 5, pixels = 784;

class Packed : public testing::Test {
 protected:
  Outcome tandem(const std::string& line) { return run_tandem(words(line, folder.text())); }
  Outcome runtime(const std::string& line, const std::map<std::string, std::string>& environment = {}) {
    return Process(folder, "runtime", words(line, folder.text()), environment, TANDEM_RUNTIME_EXAMPLE).wait();
  }

  // The same samples as TMP/data.npz and, batch after batch as the plan takes them, TMP/batches.bin.
  void write_data() {
    Tensor images(TensorType{DType::float32, {batch * batches, 1, 28, 28}}), labels(TensorType{DType::int64, {batch * batches}});
    std::uint32_t random = 7;
    for (float& v : images.write<float>()) v = static_cast<float>((random = random * 1664525 + 1013904223) >> 16) / 65536.0F;
    for (std::int64_t& v : labels.write<std::int64_t>()) v = (random = random * 1664525 + 1013904223) >> 16 & 7;
    AtomicFile file(folder / "data.npz");
    ZipWriter zip([&](std::string_view part) { file.append(part); });
    zip.add("x.npy", npy_of(images));
    zip.add("y.npy", npy_of(labels));
    zip.finish();
    file.commit();
    std::string bytes;
    for (std::int64_t b = 0; b < batches; ++b)
      for (const auto& [tensor, each] : {std::pair{&images, pixels * 4}, {&labels, std::int64_t{8}}})
        bytes.append(reinterpret_cast<const char*>(tensor->bytes().data()) + b * batch * each, static_cast<std::size_t>(batch * each));
    folder.write("batches.bin", bytes);
  }
  std::map<std::string, Tensor> weights_of(const std::string& file) {
    std::map<std::string, Tensor> weights;
    for (const Graph graph = Model::load(folder / file).file().graph({.batch = 1}); const Value& v : graph.values)
      if (v.kind == ValueKind::parameter) weights[v.name] = *v.data;
    return weights;
  }
  TemporaryFolder folder;
};

const std::string pack = "pack MODELS/mlp.onnx --batch-size 8 --init he-normal --lr 0.05 ",
                  train = "train MODELS/mlp.onnx --data npz:TMP/data.npz --no-shuffle --init he-normal --lr 0.05 --steps 20 --epochs 4 "
                          "--no-autotune --plan TMP/p/model.plan --output TMP/alone.onnx";

struct Row {
  const char* name;
  std::string options;
};
class PackedBits : public Packed, public testing::WithParamInterface<Row> {};
TEST_P(PackedBits, TwentyStepsAreThoseOfTheProgram) {
  write_data();
  const Outcome packed = tandem(pack + GetParam().options + " --output TMP/p");
  ASSERT_EQ(packed.code, 0) << packed.err;
  const Outcome alone = tandem(train);
  ASSERT_EQ(alone.code, 0) << alone.err;
  const Outcome first = runtime("TMP/p TMP/batches.bin 10"), rest = runtime("TMP/p TMP/batches.bin 10");  // it goes on with its states
  ASSERT_EQ(first.code, 0) << first.err;
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_NE(first.out.find("step 10: loss "), std::string::npos) << first.out;
  const Outcome unpacked = tandem("unpack TMP/p --output TMP/unpacked.onnx");
  ASSERT_EQ(unpacked.code, 0) << unpacked.err;
  EXPECT_EQ(weights_of("unpacked.onnx"), weights_of("alone.onnx"));
}
INSTANTIATE_TEST_SUITE_P(Rows, PackedBits,
                         testing::Values(Row{"sgd", "--momentum 0.9"}, Row{"adam", "--optimizer adam --weight-decay 0.01"},
                                         Row{"two_devices", "--devices cpu:0-1 --optimizer radam"},
                                         Row{"micro_batches", "--micro-batches 4 --optimizer lion"}),
                         [](const auto& row) { return std::string(row.param.name); });

// examples/own_loop.c, whose loss and new weights are its own, in place of the runtime.
TEST_F(Packed, StepsOfALoopInCAreThoseOfTheProgram) {
  write_data();
  const Outcome alone = tandem("train MODELS/mlp.onnx --data npz:TMP/data.npz --no-shuffle --batch-size 8 --init he-normal --lr 0.05 "
                               "--momentum 0 --steps 3 --no-autotune --devices cpu --output TMP/alone.onnx");
  ASSERT_EQ(alone.code, 0) << alone.err;
  const std::string model = words("MODELS/mlp.onnx", folder.text()).at(0);
  const std::vector<std::string> arguments{model, (folder / "loop.onnx").string(), "3", (folder / "batches.bin").string()};
  const Outcome loop = Process(folder, "loop", arguments, {}, TANDEM_LOOP_EXAMPLE).wait();
  ASSERT_EQ(loop.code, 0) << loop.err;
  EXPECT_NE(loop.out.find("step 3: loss "), std::string::npos) << loop.out;
  const std::map<std::string, Tensor> found = weights_of("loop.onnx");
  for (const auto& [name, wanted] : weights_of("alone.onnx")) {
    double distance = 0, norm = 0;
    const auto a = found.at(name).values<float>(), b = wanted.values<float>();
    for (std::size_t i = 0; i < b.size(); ++i) distance += std::pow(a[i] - b[i], 2), norm += std::pow(b[i], 2);
    EXPECT_LE(std::sqrt(distance), 1e-6 * std::sqrt(norm)) << name;
  }
}

TEST_F(Packed, UnpackedAtOnceIsTheTemplateWithItsFirstWeights) {
  ASSERT_EQ(tandem(pack + "--seed 3 --output TMP/p").code, 0);
  ASSERT_EQ(tandem("unpack TMP/p --output TMP/u.onnx").code, 0);
  EXPECT_EQ(weights_of("u.onnx"), weights_of("p/template.onnx"));
  const SafetensorsFile stored(folder / "p/weights.safetensors");
  for (const auto& [name, tensor] : weights_of("u.onnx")) EXPECT_EQ(stored.read(name), tensor) << name;
}

TEST_F(Packed, RuntimeSaysWhatDoesNotFit) {
  write_data();
  ASSERT_EQ(tandem(pack + "--output TMP/p").code, 0);
  ASSERT_EQ(tandem("pack MODELS/lenet.onnx --batch-size 8 --output TMP/other").code, 0);
  std::filesystem::copy(folder / "p", folder / "mixed");
  std::filesystem::copy(folder / "other/weights.safetensors", folder / "mixed/weights.safetensors",
                        std::filesystem::copy_options::overwrite_existing);
  std::filesystem::copy(folder / "p", folder / "damaged");
  std::string bytes = read_file(folder / "p/model.plan");
  bytes[bytes.size() / 2] ^= 1;
  folder.write("damaged/model.plan", bytes);
  std::filesystem::copy(folder / "p", folder / "passes");
  const std::string two_passes = "plan MODELS/mlp.onnx --batch-size 8 --loss external --no-autotune --format plan ";
  ASSERT_EQ(tandem(two_passes + "--output TMP/passes/model.plan").code, 0);
  struct Wrong {
    std::string line;
    int code;
    std::string says;
  };
  const Wrong rows[] = {{"TMP/mixed TMP/batches.bin 1", 4, "safetensors: 'fc1.weight' is float32[500,2450], expected float32[512,784]"},
                        {"TMP/damaged TMP/batches.bin 1", 3, "model.plan: plan file: "},
                        {"TMP/nowhere TMP/batches.bin 1", 7, "model.plan: cannot be read"},
                        {"TMP/passes TMP/batches.bin 1", 3, "model.plan: has a forward and a backward pass, whose gradients follow"},
                        {"TMP/p TMP/p/none.bin 1", 7, "none.bin: "}};
  for (const Wrong& row : rows) {
    const Outcome o = runtime(row.line);
    EXPECT_EQ(o.code, row.code) << row.line << ": " << o.err;
    EXPECT_NE(o.err.find(row.says), std::string::npos) << o.err;
  }
  const Outcome older = runtime("TMP/p TMP/batches.bin 1", {{"TANDEM_ISA", "baseline"}});
  EXPECT_EQ(older.code, 5) << older.err;
  EXPECT_NE(older.err.find("vectors by baseline: make it again by 'tandem pack'"), std::string::npos) << older.err;
}

TEST_F(Packed, FoldersAreRefusedThatWouldMislead) {
  ASSERT_EQ(tandem(pack + "--output TMP/p").code, 0);
  struct Wrong {
    std::string line;
    int code;
    std::string says;
  };
  const Wrong rows[] = {{pack + "--output TMP/p", 2, "--overwrite replaces it"},
                        {pack + "--ema 0.9 --output TMP/q", 2, "--ema and --swa: "},
                        {pack + "--teacher MODELS/mlp.onnx --output TMP/q", 2, "--teacher: "},
                        {pack, 2, "--output is missing"},
                        {"unpack TMP/q --output TMP/u.onnx", 7, "template.onnx"},
                        {"unpack TMP/p", 2, "--output is missing"},
                        {"unpack TMP/p --weights MODELS/mlp.onnx --output TMP/u.onnx", 4, "no safetensors file"}};
  for (const Wrong& row : rows) {
    const Outcome o = tandem(row.line);
    EXPECT_EQ(o.code, row.code) << row.line << ": " << o.err;
    EXPECT_NE(o.err.find(row.says), std::string::npos) << row.line << ": " << o.err;
  }
  EXPECT_EQ(tandem(pack + "--overwrite --output TMP/p").code, 0);
}

}  // namespace
}  // namespace tandem
