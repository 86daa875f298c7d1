// Names may hold any bytes. Text shows none of them raw, on a terminal or in a file; JSON holds the names themselves.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/file.h"
#include "base/printable.h"
#include "tests/cli/run_tandem.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using test::Model;
using test::node;

// Escapes, controls of eight bits, directions, no width, ends of lines and paragraphs, a mark of byte order, a zero.
const std::string signs =
    "\x1b[31m \xc2\x9b"
    "2J \u202e \u2066 \u200b \u00ad \u061c \u2028 \u2029 \ufeff \U000e0041 \x7f \r\nerror: mine "s +
    '\0' + " end";

// A classifier of x [N,4] whose every name ends in `sign`.
Model named(const std::string& sign) {
  Model m;
  const auto as = [&](const char* name) { return name + sign; };
  m.proto.mutable_graph()->set_name(as("graph"));
  m.proto.set_producer_name(as("producer"));
  m.proto.set_doc_string(as("doc"));
  m.input(as("x"), "N,4").output(as("y")).output(as("z"));
  std::vector<float> values;
  for (int i = 0; i < 12; ++i) values.push_back(std::sin(static_cast<float>(i * i)));
  m.add(test::float_tensor(as("w"), {4, 3}, values)).add(test::filled_tensor(as("b"), {3}));
  m.add(test::function(as("F"), {"a"}, {"c"}, {node("Relu", {"a"}, {"c"})}));
  m.proto.mutable_functions(0)->set_domain(as("local"));
  m.proto.mutable_opset_import(1)->set_domain(as("local"));
  m.add(node("MatMul", {as("x"), as("w")}, {as("p")}))
      .add(node("Add", {as("p"), as("b")}, {as("y")}))
      .add(node(as("F"), {as("y")}, {as("z")}, {}, as("local")));
  for (auto& n : *m.proto.mutable_graph()->mutable_node()) n.set_name(as("node"));
  auto& entry = *m.proto.add_metadata_props();
  entry.set_key(as("key"));
  entry.set_value(as("value"));
  return m;
}

void expect_shown(const std::string& text, const std::string& where) {
  EXPECT_EQ(printable(text, Lines::kept), text) << where;
  EXPECT_EQ(text.find("\nerror: mine"), std::string::npos) << where << ": " << text;
}

void collect(const Json& json, std::set<std::string>& texts) {
  if (json.is_array())
    for (const Json& item : json.array()) collect(item, texts);
  else if (json.is_object())
    for (const auto& [key, value] : json.object()) {
      texts.insert(key);
      collect(value, texts);
    }
  else if (std::holds_alternative<std::string>(json.value()))
    texts.insert(json.text());
}

std::set<std::string> texts_of(const std::string& lines) {
  std::set<std::string> texts;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) collect(Json::parse(line), texts);
  return texts;
}

Outcome run_before_a_terminal(const std::vector<std::string>& arguments) {
  std::istringstream in;
  std::ostringstream out, err;
  Streams streams{in, out, err, false, false, true, [] { return 100; }};
  const int code = run(without_run_folder(arguments), streams, [](const std::string&) { return nullptr; });
  return {code, out.str(), err.str()};
}

class Names : public testing::TestWithParam<std::string> {};

TEST_P(Names, AreHiddenInTextAndWholeInJson) {
  const TemporaryFolder folder;
  test::write_file(folder / "m.onnx", named(GetParam()).bytes());
  Model bad = named(GetParam());
  bad.proto.mutable_graph()->mutable_node(1)->set_op_type("Nonsense" + GetParam());
  test::write_file(folder / "bad.onnx", bad.bytes());
  Model twice = named(GetParam());
  twice.add(twice.proto.graph().initializer(0));
  test::write_file(folder / "twice.onnx", twice.bytes());
  const std::string name = is_utf8(GetParam()) ? GetParam() : as_text(GetParam());
  struct Row {
    std::string line;
    int code = 0;
    std::vector<std::string> names = {};  // in the JSON of the same with --json
  };
  const Row rows[] = {
      {"summary TMP/m.onnx", 0, {"graph", "node", "w", "b"}},
      {"summary TMP/m.onnx --weights", 0, {"w", "b"}},
      {"plan TMP/m.onnx --batch-size 4", 0, {"graph", "node", "x", "y", "w", "b"}},
      {"plan TMP/m.onnx --batch-size 4 --devices cpu:0-1 --loss mse"},
      {"plan TMP/m.onnx --batch-size 4 --format summary"},
      {"plan TMP/m.onnx --batch-size 4 --format html"},
      {"plan TMP/m.onnx --batch-size 4 --format dot"},
      {"plan TMP/m.onnx --batch-size 4 --format mermaid"},
      {"plan TMP/m.onnx --batch-size 4 --format svg"},
      {"plan TMP/m.onnx --batch-size 4 --format perfetto"},
      {"plan TMP/m.onnx --batch-size 4 --format html --output TMP/files/plan.html"},
      {"plan TMP/m.onnx --batch-size 4 --format text --output TMP/files/plan.txt --dump-passes TMP/files/passes"},
      {"plan TMP/m.onnx --batch-size 4 --loss-on nothing", 2},
      {"plan TMP/bad.onnx", 3},
      {"plan TMP/twice.onnx", 3},
      {"summary TMP/bad.onnx"},
      {"train TMP/m.onnx --data random,samples=8 --batch-size 4 --epochs 2 --loss mse --metrics mae --no-autotune --tensorboard --run-dir TMP/files/run --overwrite --output TMP/t.onnx"},
      {"train TMP/t.onnx --data random,samples=8 --batch-size 4 --steps 1 --loss mse --no-autotune --freeze nothing*", 2},
      {"evaluate TMP/t.onnx --data random,samples=8 --batch-size 4 --loss mse"},
      {"predict TMP/t.onnx --data random,samples=8 --batch-size 4 --output TMP/files/p.csv", 0, {"y", "z"}},
      {"predict TMP/t.onnx --data npz:TMP/none.npz --output TMP/files/p.csv", 7},
      {"runs TMP/files"},
      {"runs TMP/files/run"},
      {"cut TMP/m.onnx --at nothing --output TMP/cut.onnx", 2},
      {"operators"},
      {"devices"},
  };
  for (const Row& row : rows)
    for (const bool json : {false, true})
      for (const bool terminal : {false, true}) {
        const std::string line = row.line + (json ? " --json" : "");
        const auto arguments = words(line, folder.text());
        const Outcome o = terminal ? run_before_a_terminal(arguments) : run_tandem(arguments);
        EXPECT_EQ(o.code, row.code) << line << ": " << o.err;
        expect_shown(o.out, line);
        expect_shown(o.err, line);
        if (!json) continue;
        const std::set<std::string> texts = texts_of(o.out);
        for (const std::string& begin : row.names)
          EXPECT_TRUE(texts.contains(begin + name)) << line << ": no '" << begin << "…' in " << o.out;
      }
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder / "files")) {
    const std::string ending = entry.path().extension().string();
    if (!entry.is_regular_file() || ending == ".checkpoint" || ending == ".plan" || ending == ".onnx" || ending == ".lock" ||
        ending == ".png" || entry.path().filename().string().starts_with("events.out"))
      continue;
    expect_shown(read_file(entry.path()), entry.path().string());
    ++files;
  }
  EXPECT_GT(files, 10);
}
INSTANTIATE_TEST_SUITE_P(Rows, Names, testing::Values(signs, signs + "\xff\xc2"),
                         [](const auto& info) { return info.index == 0 ? "text" : "bytes"; });

// An error's text goes on behind a zero.
TEST(ErrorText, HoldsWhatStandsBehindAZero) {
  EXPECT_STREQ(Error(ExitCode::model, "a"s + '\0' + "b").what(), "a\\x00b");
  const TemporaryFolder folder;
  Model m = named(std::string(1, '\0'));
  m.proto.mutable_graph()->mutable_node(1)->set_op_type("Nonsense");
  test::write_file(folder / "m.onnx", m.bytes());
  const Outcome o = run_tandem(words("plan TMP/m.onnx", folder.text()));
  EXPECT_NE(o.err.find("node\\x00"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("Nonsense"), std::string::npos) << o.err;
  folder.write("c.json", "{\"model\": \"a.onnx\\u0000b\"}");
  const Outcome zero = run_tandem(words("plan --config TMP/c.json", folder.text()));
  EXPECT_EQ(zero.code, 2);
  EXPECT_NE(zero.err.find("a.onnx\\x00b"), std::string::npos) << zero.err;
}

// Folders give classes their names; the model keeps them as text, tables show them so that `from_text` gives them back.
TEST(ClassNames, OfAnyBytesSurvive) {
  const TemporaryFolder folder;
  std::vector<std::string> classes{"caf\xe9", "caf\xe8", "\\xe9", "a,\"b\"", "tab\tline\n", "\u202eecin\xff\x1b[2J"};
  std::sort(classes.begin(), classes.end());
  for (const std::string& c : classes) {
    fs::create_directories(folder / "d" / "train" / c);
    for (int i = 0; i < 2; ++i)
      std::ofstream(folder / "d" / "train" / c / concat(i, ".ppm"), std::ios::binary) << "P6 2 2 255\n" << std::string(12, c[0]);
  }
  Model m;
  m.input("x", "N,3,2,2").output("y").add(test::filled_tensor("w", {12, 6}, 0.01F));
  m.add(node("Flatten", {"x"}, {"f"})).add(node("MatMul", {"f", "w"}, {"y"}));
  test::write_file(folder / "m.onnx", m.bytes());
  const std::string data = "images:" + folder.text() + "/d";
  auto o = run_tandem(words("train TMP/m.onnx --data " + data +
                                " --batch-size 4 --steps 2 --loss softmax-cross-entropy --init he-normal --no-autotune --output TMP/t.onnx",
                            folder.text()));
  ASSERT_EQ(o.code, 0) << o.err;
  expect_shown(o.err, "train");
  onnx::ModelProto trained;
  ASSERT_TRUE(trained.ParseFromString(read_file(folder / "t.onnx")));
  for (const auto& entry : trained.metadata_props()) EXPECT_TRUE(is_utf8(entry.value())) << entry.key();
  o = run_tandem(words("evaluate TMP/t.onnx --data " + data, folder.text()));
  ASSERT_EQ(o.code, 0) << o.err;
  o = run_tandem(words("predict TMP/t.onnx --data " + data + " --output TMP/p.csv", folder.text()));
  ASSERT_EQ(o.code, 0) << o.err;
  expect_shown(o.err, "predict");
  const std::string table = read_file(folder / "p.csv");
  expect_shown(table, "p.csv");
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 13) << table;
  std::string header = "sample,class,probability";
  for (const std::string& c : classes) {
    const std::string cell = printable(as_text("p(" + c + ")"));
    EXPECT_EQ(from_text(cell), "p(" + c + ")");
    header += c[0] == 'a' ? ",\"p(a,\"\"b\"\")\"" : "," + cell;
  }
  EXPECT_EQ(table.substr(0, table.find('\n')), header);
}

// Paths of any bytes are found again from a run's configuration.
TEST(Paths, OfAnyBytesSurviveInAConfiguration) {
  const TemporaryFolder folder;
  const fs::path place = folder / "d\xe9\\x41";
  fs::create_directories(place);
  fs::copy_file(std::string(TANDEM_SOURCE_DIR) + "/models/mlp.onnx", place / "m.onnx");
  const std::string options =
      " --data synthetic:digits,train=64,test=32 --batch-size 32 --init he-normal --no-autotune --epochs 1 --run-dir ";
  auto o = run_tandem(
      words("train " + (place / "m.onnx").string() + options + (place / "run").string() + " --output " + (place / "t.onnx").string()));
  ASSERT_EQ(o.code, 0) << o.err;
  fs::remove(place / "t.onnx");
  o = run_tandem(words("train --config " + (place / "run" / "config.json").string() + " --resume --epochs 2"));
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_TRUE(fs::exists(place / "t.onnx"));
}

// A file's name has 255 bytes at most; what stands beside such a file has a shorter one made of it.
TEST(LongNames, OfOutputsMayBeAsLongAsFilesNamesAre) {
  const TemporaryFolder folder;
  test::write_file(folder / "m.onnx", named("").bytes());
  const std::string line = " TMP/m.onnx --data random,samples=8 --loss mse --batch-size 4 --no-autotune --steps 2 ";
  const std::string longest = std::string(250, 'o') + ".onnx";
  auto o =
      run_tandem(words("train" + line + "--ema 0.9 --run-dir TMP/" + std::string(255, 'r') + " --output TMP/" + longest, folder.text()));
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_TRUE(fs::exists(folder / longest));
  o = run_tandem(words("evaluate TMP/" + longest + " --loss mse --data random,samples=8", folder.text()));
  EXPECT_EQ(o.code, 0) << o.err;
  o = run_tandem(
      words("train" + line + "--lora r=2,targets=* --lora-export adapter --output TMP/" + longest + " --overwrite", folder.text()));
  EXPECT_EQ(o.code, 0) << o.err;
  o = run_tandem(words("plan TMP/m.onnx --format json --output TMP/" + std::string(255, 'p'), folder.text()));
  EXPECT_EQ(o.code, 0) << o.err;
  o = run_tandem(words("train" + line + "--output TMP/" + std::string(256, 'o'), folder.text()));
  EXPECT_EQ(o.code, 7) << o.err;
  for (const auto& entry : fs::recursive_directory_iterator(folder / "")) {
    EXPECT_EQ(entry.path().filename().string().find(".tandem-"), std::string::npos) << entry.path();
    EXPECT_NE(entry.path().filename().string(), std::string(256, 'o').substr(0, 255)) << "nothing is cut in silence";
  }
}

}  // namespace
}  // namespace tandem
