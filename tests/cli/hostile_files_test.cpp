// Files made to crash, hang or exhaust, given to the program: each ends at once, within little memory, with a clear error or as
// the model that it is.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/file.h"
#include "tests/cli/process.h"
#include "tests/importer/model_builder.h"

namespace tandem {
namespace {

using test::filled_tensor;
using test::int_tensor;
using test::Model;
using test::node;

constexpr double most_seconds = 5;  // of processor time: others may be at work
constexpr std::int64_t most_bytes = std::int64_t{1} << 30;

// What a model may be refused with; a training of one that is none too large for the machine goes through.
void expect_small(const std::string& line, const TemporaryFolder& folder, const std::vector<int>& codes) {
  Process process(folder, "run", words(line, folder.text()));
  const Outcome outcome = process.wait();
  EXPECT_NE(std::find(codes.begin(), codes.end(), outcome.code), codes.end()) << line << ": " << outcome.code << ", " << outcome.err;
#ifndef TANDEM_SANITIZED
  EXPECT_LT(process.seconds(), most_seconds) << line;
  EXPECT_LT(process.peak_bytes(), most_bytes) << line;
#endif
}

void expect_small_model(const std::string& file, const TemporaryFolder& folder) {
  expect_small("plan " + file + " --quiet --batch-size 4", folder, {0, 3});
  expect_small("summary " + file, folder, {0, 3});
  expect_small("train " + file + " --data random,samples=4 --batch-size 4 --steps 1 --no-autotune --quiet --output TMP/out.onnx", folder,
               {0, 3, 4});
}

TEST(HostileFiles, OfTheTestMaterialEndAtOnce) {
  const char* given = std::getenv("TANDEM_SHARED");
  const std::filesystem::path shared = std::filesystem::path(given ? given : TANDEM_SHARED_DEFAULT) / "onnx" / "repro" / "hostile";
  if (!std::filesystem::exists(shared)) GTEST_SKIP() << shared << " is not there: set TANDEM_SHARED to the folder of test material";
  const TemporaryFolder folder;
  for (const auto& entry : std::filesystem::directory_iterator(shared)) expect_small_model(entry.path().string(), folder);
}

TEST(HostileFiles, BombsEndAtOnce) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const Model& model) {
    test::write_file(folder / name, model.bytes());
    return (folder / name).string();
  };
  const auto classifier = [](const char* read) {  // of x [N,8], and of a number that `read` gives
    Model m;
    m.input("x", "N,8").output("y").add(filled_tensor("w", {8, 4})).add(node("MatMul", {"x", "w"}, {"p"}));
    if (*read) m.add(node("ReduceSum", {read}, {"s"}, {{"keepdims", std::int64_t{0}}})).add(node("Add", {"p", "s"}, {"y"}));
    return m;
  };
  Model constants = classifier("c59");
  constants.add(int_tensor("size", {1}, {1 << 24}));
  for (int i = 0; i < 60; ++i) constants.add(node("ConstantOfShape", {"size"}, {concat("k", i)}));
  for (int i = 0; i < 60; ++i) constants.add(node("Add", {concat("k", i), i == 0 ? "k1" : concat("c", i - 1)}, {concat("c", i)}));
  expect_small_model(write("constants.onnx", constants), folder);

  Model pad = classifier("big");
  pad.add(int_tensor("pads", {4}, {0, 0, 0, 1LL << 33})).add(node("Pad", {"p", "pads"}, {"big"}));
  expect_small_model(write("pad.onnx", pad), folder);

  Model tile = classifier("big");
  tile.add(filled_tensor("b", {4})).add(int_tensor("repeats", {1}, {1LL << 33})).add(node("Tile", {"b", "repeats"}, {"big"}));
  expect_small_model(write("tile.onnx", tile), folder);

  Model nodes = classifier("");
  for (int i = 0; i < 17; ++i) {
    const std::string next = concat("F", i + 1);
    nodes.add(test::function(concat("F", i), {"a"}, {"c"},
                             {node(next, {"a"}, {"b"}, {}, test::function_domain), node(next, {"b"}, {"c"}, {}, test::function_domain)}));
  }
  nodes.add(test::function("F17", {"a"}, {"b"}, {node("Relu", {"a"}, {"b"})})).add(node("F0", {"p"}, {"y"}, {}, test::function_domain));
  expect_small_model(write("nodes.onnx", nodes), folder);
}

// What is no regular file is refused, not waited for and not read without end.
TEST(HostileFiles, PipesDevicesAndFoldersAreRefused) {
  const TemporaryFolder folder;
  const std::string fifo = (folder / "fifo.onnx").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((folder / "fifo.npy").c_str(), 0600), 0);
  std::filesystem::create_directories(folder / "idx");
  ASSERT_EQ(::mkfifo((folder / "idx/train-images-idx3-ubyte").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((folder / "idx/train-labels-idx1-ubyte").c_str(), 0600), 0);
  struct Row {
    std::string line;
    int code;
  };
  const Row rows[] = {
      {"plan " + fifo, 3},
      {"plan /dev/zero", 3},
      {"plan TMP", 3},
      {"plan --check " + fifo, 3},
      {"plan --check /dev/zero", 3},
      {"train MODELS/lenet.onnx --data npz:" + fifo, 4},
      {"train MODELS/lenet.onnx --data npz:/dev/zero", 4},
      {"train MODELS/lenet.onnx --data npz:TMP", 4},
      {"train MODELS/lenet.onnx --data idx:TMP/idx", 4},
      {"predict MODELS/lenet.onnx --data TMP/fifo.npy --output TMP/p.npy", 4},
      {"train --config " + fifo, 7},
      {"train MODELS/lenet.onnx --data random,samples=4 --batch-size 4 --steps 1 --quiet --output TMP/o.onnx --tuning-cache " + fifo, 7},
      {"train MODELS/lenet.onnx --data random,samples=4 --batch-size 4 --steps 1 --quiet --output TMP/o.onnx --tuning-cache /dev/zero", 7},
  };
  for (const Row& row : rows) expect_small(row.line, folder, {row.code});
}

// Names may hold what a terminal would obey.
TEST(HostileFiles, NamesCannotSpeakToTheTerminal) {
  const TemporaryFolder folder;
  Model m;
  const std::string name = "n\x1b[2J\x9b\nerror: all is lost\r";
  m.input("x", "N,8").output("y").add(filled_tensor("w", {8, 4}));
  auto relu = node("Relu", {"x"}, {"r"});
  relu.set_name(name);
  auto unknown = node("Nonsense", {"p"}, {"y"});
  unknown.set_name(name);
  m.add(relu).add(node("MatMul", {"r", "w"}, {"p"})).add(unknown);
  test::write_file(folder / "bad.onnx", m.bytes());
  m.proto.mutable_graph()->mutable_node(2)->set_op_type("Identity");
  test::write_file(folder / "good.onnx", m.bytes());
  for (const char* line :
       {"plan TMP/bad.onnx", "summary TMP/bad.onnx", "summary TMP/good.onnx", "plan TMP/good.onnx", "summary TMP/good.onnx --json"}) {
    const Outcome o = run_tandem(words(line, folder.text()));
    for (const std::string& text : {o.out, o.err}) {
      EXPECT_EQ(text.find_first_of("\x1b\x9b\r"), std::string::npos) << line << ": " << text;
      EXPECT_EQ(text.find("\nerror: all"), std::string::npos) << line << ": " << text;
    }
  }
  const Outcome o = run_tandem(words("plan TMP/bad.onnx", folder.text()));
  EXPECT_NE(o.err.find("n\\x1b[2J\\x9b\\x0aerror: all is lost\\x0d"), std::string::npos) << o.err;
}

}  // namespace
}  // namespace tandem
