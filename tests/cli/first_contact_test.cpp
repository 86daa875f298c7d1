// What a person sees of a first run, and what predict writes for people.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "cli/predictions.h"
#include "cli/progress.h"
#include "tests/cli/process.h"
#include "tests/cli/run_tandem.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

const std::string digits = "MODELS/mlp.onnx --data synthetic:digits,train=64,test=16 --no-autotune ";

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::int64_t lines_before(const std::string& text, std::string_view start) {
  const std::vector<std::string> lines = lines_of(text);
  return std::find_if(lines.begin(), lines.end(), [&](const std::string& line) { return line.starts_with(start); }) - lines.begin();
}

// Two features, three classes.
std::string linear_model() {
  return test::Model()
      .input("x", "N,2")
      .add(test::filled_tensor("w", {2, 3}))
      .add(test::node("MatMul", {"x", "w"}, {"y"}))
      .output("y")
      .bytes();
}

TEST(Opening, HasSixLinesAndSaysWhereTheRestIs) {
  const TemporaryFolder folder;
  const Outcome o = run_tandem(words("train " + digits + "--run-dir TMP/run --output TMP/o.onnx", folder.text()));
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_LE(lines_before(o.err, "epoch 1"), 6) << o.err;
  EXPECT_NE(o.err.find("/run/plan.txt, or --verbose"), std::string::npos) << o.err;
  EXPECT_NE(o.err.find("chosen: loss softmax-cross-entropy, classes 10"), std::string::npos) << o.err;
  const std::string plan = contents(folder / "run/plan.txt");
  for (const char* part : {"Training plan of", "overruled by", "--lr-schedule"}) EXPECT_NE(plan.find(part), std::string::npos) << part;
  const Outcome all = run_tandem(words("train " + digits + "--verbose --output TMP/o.onnx", folder.text()));
  for (const char* part : {"Training plan of", "overruled by"}) EXPECT_NE(all.err.find(part), std::string::npos) << part;
}

TEST(EpochLines, ShowTheMetricsThatWereAskedFor) {
  const TemporaryFolder folder;
  const Outcome o = run_tandem(words("train " + digits + "--metrics f1,top5 --output TMP/o.onnx", folder.text()));
  ASSERT_EQ(o.code, 0) << o.err;
  const std::vector<std::string> lines = lines_of(o.err);
  const std::string epoch = lines.at(static_cast<std::size_t>(lines_before(o.err, "epoch 1")));
  EXPECT_NE(epoch.find("val_f1 "), std::string::npos) << epoch;
  EXPECT_NE(epoch.find("val_top5 "), std::string::npos) << epoch;
  folder.write("m.onnx", linear_model());
  folder.write("t.csv", "a,b,label\n1,2,0\n3,4,1\n5,6,2\n");
  const Outcome none =
      run_tandem(words("train TMP/m.onnx --data csv:TMP/t.csv --no-autotune --metrics f1 --output TMP/o.onnx", folder.text()));
  EXPECT_NE(none.err.find("warning: --metrics f1: they are measured on validation data, and there is none (--validation-split"),
            std::string::npos)
      << none.err;
}

TEST(RecentRates, AreOfTheLastSecondsAlone) {
  RecentRate rate;
  rate.add(100, 100);
  EXPECT_DOUBLE_EQ(rate.samples_per_second(), 1);
  for (int i = 0; i < 50; ++i) rate.add(100, 0.5);
  EXPECT_DOUBLE_EQ(rate.samples_per_second(), 200) << "a slow first step counts no longer";
  rate.add(10, 20);
  EXPECT_DOUBLE_EQ(rate.samples_per_second(), 0.5) << "one long step is all of them";
}

TEST(Predict, WritesATableOfClassesAndProbabilities) {
  const TemporaryFolder folder;
  const std::string data = "--data synthetic:digits,train=4,test=4 ";
  const Outcome o =
      run_tandem(words("predict MODELS/lenet.onnx " + data + "--loss softmax-cross-entropy --output TMP/p.csv", folder.text()));
  ASSERT_EQ(o.code, 0) << o.err;
  const std::vector<std::string> lines = lines_of(contents(folder / "p.csv"));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_TRUE(lines[0].starts_with("sample,class,probability,p(0),p(1)")) << lines[0];
  for (std::size_t i = 1; i < lines.size(); ++i) {
    std::vector<std::string> cells;
    std::istringstream row(lines[i]);
    for (std::string cell; std::getline(row, cell, ',');) cells.push_back(cell);
    ASSERT_EQ(cells.size(), 13u) << lines[i];
    double sum = 0;
    for (std::size_t c = 3; c < cells.size(); ++c) sum += std::stod(cells[c]);
    EXPECT_NEAR(sum, 1, 1e-4);
    EXPECT_EQ(cells[2], cells[3 + std::stoul(cells[1])]);
  }
}

TEST(Predict, WritesATableOfNumbers) {
  const TemporaryFolder folder;
  folder.write("m.onnx", test::Model().input("x", "N,2").add(test::node("Neg", {"x"}, {"y"})).output("y").bytes());
  folder.write("x.csv", "a,b\n1,2\n3,-4.5\n");
  const Outcome o = run_tandem(words("predict TMP/m.onnx --data csv:TMP/x.csv,x=a,b --output TMP/p.csv", folder.text()));
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(contents(folder / "p.csv"), "sample,y_0,y_1\n0,-1,-2\n1,-3,4.5\n");
}

TEST(Predict, TakesAFileAndAFolderWithoutClasses) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "photos");
  for (const char* name : {"one.pgm", "photos/a.pgm", "photos/b.pgm"}) folder.write(name, "P5 28 28 255\n" + std::string(28 * 28, '\x40'));
  for (const auto& [data, rows] : {std::pair<const char*, std::size_t>{"TMP/one.pgm", 1}, {"TMP/photos", 2}, {"images:TMP/photos", 2}}) {
    const Outcome o = run_tandem(
        words(concat("predict MODELS/lenet.onnx --data ", data, " --loss softmax-cross-entropy --output TMP/p.csv"), folder.text()));
    ASSERT_EQ(o.code, 0) << data << o.err;
    const std::vector<std::string> lines = lines_of(contents(folder / "p.csv"));
    ASSERT_EQ(lines.size(), rows + 1) << data;
    EXPECT_NE(lines[1].find(".pgm,"), std::string::npos) << lines[1];
  }
  EXPECT_EQ(run_tandem(words("predict MODELS/lenet.onnx --data TMP/nowhere.png --output TMP/p.csv", folder.text())).code, 7);
  const Outcome train = run_tandem(words("train MODELS/lenet.onnx --data TMP/photos --output TMP/o.onnx", folder.text()));
  EXPECT_EQ(train.code, 4) << "to train, classes are needed: " << train.err;
}

TEST(Probabilities, AreReadByTheValues) {
  const auto read = [](std::vector<float> values) {
    return probabilities_of(Tensor::of<float>(Shape{1, std::ssize(values)}, std::span<const float>(values)));
  };
  EXPECT_EQ(read({0.25F, 0.75F}).how, "probabilities");
  const Probabilities logs = read({std::log(0.25F), std::log(0.75F)});
  EXPECT_EQ(logs.how, "logarithms of probabilities");
  EXPECT_NEAR(logs.values[1], 0.75, 1e-6);
  const Probabilities scores = read({1, 1});
  EXPECT_EQ(scores.how, "scores, by softmax");
  EXPECT_DOUBLE_EQ(scores.values[0], 0.5);
  EXPECT_NEAR(read({1000, -1000}).values[0], 1, 1e-12);
}

TEST(Config, IsReadFromAnotherFolder) {
  const TemporaryFolder folder;
  folder.write("m.onnx", linear_model());
  std::string table = "a,b,label\n";
  for (int i = 0; i < 24; ++i) table += concat(i, ',', -i, ',', i % 3, '\n');
  folder.write("t.csv", table);
  const Outcome first =
      Process::shell(folder, "run", "TANDEM train m.onnx --data csv:t.csv --no-autotune --run-dir runs/a --output o.onnx --quiet").wait();
  ASSERT_EQ(first.code, 0) << first.err;
  const Outcome other =
      Process::shell(folder, "run", "mkdir elsewhere && cd elsewhere && TANDEM evaluate --config ../runs/a/config.json").wait();
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_NE(other.err.find("its relative paths are taken from "), std::string::npos) << other.err;
  EXPECT_EQ(other.out.substr(other.out.find(": ")),
            Process::shell(folder, "again", "TANDEM evaluate --config runs/a").wait().out.substr(std::string("csv:t.csv, train").size()))
      << "the same numbers";
}

TEST(SeveralLosses, NameTheLabelsThatAreMissing) {
  const TemporaryFolder folder;
  folder.write("m.onnx", test::Model()
                             .input("x", "N,2")
                             .add(test::filled_tensor("w", {2, 3}))
                             .add(test::node("MatMul", {"x", "w"}, {"a"}))
                             .add(test::node("Relu", {"a"}, {"b"}))
                             .output("a")
                             .output("b")
                             .bytes());
  folder.write("t.csv", "p,q\n1,2\n3,4\n");
  const Outcome o = run_tandem(words("train TMP/m.onnx --data csv:TMP/t.csv,x=p,q --loss a=mse,b=mse --output TMP/o.onnx", folder.text()));
  EXPECT_EQ(o.code, 4) << o.err;
  EXPECT_NE(o.err.find("y_a"), std::string::npos) << o.err;
}

}  // namespace
}  // namespace tandem
