// A model that no device has room for trains in parts, and is validated, stopped, resumed on fewer devices and exported.
#include <fstream>

#include "base/file.h"
#include "tests/cli/process.h"
#include "tests/importer/model_builder.h"

namespace tandem {
namespace {

// Eight layers of 1 MiB. With gradients and Adam's states they take 32 MiB.
void write_layers(const std::filesystem::path& path) {
  test::Model m;
  std::string x = "x";
  m.input("x", "N,512");
  for (int layer = 0; layer < 8; ++layer) {
    const std::string w = concat("w", layer), y = concat("y", layer), z = concat("z", layer);
    m.add(test::filled_tensor(w, {512, 512}, 0.05F)).add(test::node("MatMul", {x, w}, {y})).add(test::node("Relu", {y}, {z}));
    x = z;
  }
  m.add(test::filled_tensor("head", {512, 4}, 0.05F)).add(test::node("MatMul", {x, "head"}, {"scores"})).output("scores");
  test::write_file(path, m.bytes());
}

TEST(DeviceMemory, WhatNoDeviceHoldsTrainsInParts) {
  const TemporaryFolder folder;
  write_layers(folder / "layers.onnx");
  const std::string run =
      "train TMP/layers.onnx --data random,samples=48 --validation-split 0.25 --init he-normal --optimizer adam --lr 0.001 "
      "--batch-size 8 --no-autotune --device-memory 24MiB --run-dir TMP/run --output TMP/trained.onnx ";
  const auto on = [&](const std::string& options) { return run_tandem(words(options, folder.text())); };
  const Outcome whole = on(run + "--epochs 1 --devices cpu:0-3");
  EXPECT_EQ(whole.code, 5);
  EXPECT_NE(whole.err.find("but has 24 MiB"), std::string::npos) << whole.err;
  EXPECT_NE(whole.err.find("with --parallel zero=3 parameters and the optimizer's states lie in parts on the 4 devices"), std::string::npos)
      << whole.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "trained.onnx"));

  const Outcome parts = on(run + "--epochs 1 --devices cpu:0-3 --parallel zero=3");
  ASSERT_EQ(parts.code, 0) << parts.err;
  const std::string first = read_file(folder / "trained.onnx");
  const Outcome resumed = on("train --resume --run-dir TMP/run --epochs 2 --devices cpu:0-1 --parallel zero=3");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(read_file(folder / "trained.onnx"), first);
  const Outcome measured = on("evaluate TMP/trained.onnx --data random,samples=16 --batch-size 8 --no-autotune");
  EXPECT_EQ(measured.code, 0) << measured.err;
}

// 8 MiB of weights: a part of them and a layer on its way, or parts of the layers.
TEST(DeviceMemory, WhatNoDeviceHoldsIsMeasuredAndPredictsInParts) {
  const TemporaryFolder folder;
  write_layers(folder / "layers.onnx");
  const auto on = [&](const std::string& options) { return run_tandem(words(options, folder.text())); };
  const std::string data = " TMP/layers.onnx --data random,samples=16 --batch-size 8 --no-autotune --devices cpu:0-3 ";
  const Outcome whole = on("evaluate" + data + "--device-memory 6MiB");
  EXPECT_EQ(whole.code, 5) << whole.out;
  for (const char* way : {"--parallel zero=3 --device-memory 6MiB", "--parallel tensor=4 --device-memory 3MiB"}) {
    const Outcome measured = on("evaluate" + data + way);
    EXPECT_EQ(measured.code, 0) << way << ": " << measured.err;
    const Outcome alone = on("evaluate TMP/layers.onnx --data random,samples=16 --batch-size 8 --no-autotune");
    EXPECT_EQ(measured.out, alone.out) << way;
    const Outcome predicted = on("predict" + data + way + " --output TMP/scores.npy");
    EXPECT_EQ(predicted.code, 0) << way << ": " << predicted.err;
  }
}

}  // namespace
}  // namespace tandem
