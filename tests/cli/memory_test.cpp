// What a training process takes of the machine's memory, against what the plan says.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/file.h"
#include "base/json.h"
#include "tests/cli/run_tandem.h"
#include "tests/cli/table_model.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

struct Child {
  int status = -1;
  std::int64_t peak_bytes = 0;  // largest resident set
};

Child run_program(const std::vector<std::string>& arguments, const std::string& output) {
  std::vector<char*> argv{const_cast<char*>(TANDEM_PROGRAM)};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, TANDEM_PROGRAM, &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return {};
  Child child;
  rusage usage{};
  if (wait4(pid, &child.status, 0, &usage) == pid) child.peak_bytes = 1024LL * usage.ru_maxrss;
  return child;
}

// A line's event of `train --json`.
Json event(const std::string& lines, const std::string& name) {
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);)
    if (const Json json = Json::parse(line); json.at("event").text() == name) return json;
  return {};
}

// docs/benchmarks.md states these: the program, its libraries and generated kernels; and one copy of the weights while a
// file is written.
constexpr std::int64_t base = 60 << 20;
constexpr double tolerance = 1.1;

TEST(Memory, OfTheProcessIsThePlansArenasAndAFixedBase) {
#ifdef TANDEM_SANITIZED
  GTEST_SKIP() << "a sanitizer's own memory cannot be told from the program's";
#endif
  const TemporaryFolder folder;
  const std::string line =
      "train MODELS/resnet18.onnx --data random,samples=8 --batch-size 4 --devices cpu:0 --steps 2 --no-autotune --json --quiet "
      "--run-dir TMP/run --output TMP/trained.onnx";
  const Child child = run_program(words(line, folder.text()), folder.text() + "/events");
  ASSERT_TRUE(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0) << child.status;
  const Json done = event(read_file(folder / "events"), "done");
  const std::int64_t predicted = done.at("predicted_peak_bytes").integer();
  EXPECT_EQ(done.at("peak_bytes").integer(), predicted);
  const std::int64_t weights = static_cast<std::int64_t>(std::filesystem::file_size(folder / "trained.onnx"));
  EXPECT_LT(static_cast<double>(child.peak_bytes), tolerance * static_cast<double>(predicted) + base + weights);
  EXPECT_GT(static_cast<double>(child.peak_bytes), static_cast<double>(predicted) / tolerance);
}

// A table of 48 MiB takes what the plan says at every station: while it is read, kept in checkpoints, taken up again, averaged and written;
// one of 96 MiB when it changes places with its average.
TEST(Memory, OfALargeTableIsWhatThePlanSays) {
#ifdef TANDEM_SANITIZED
  GTEST_SKIP() << "a sanitizer's own memory cannot be told from the program's";
#endif
  constexpr std::int64_t width = 1024, room = 16 << 20;
  const TemporaryFolder folder;
  const std::int64_t start = run_program({"--version"}, folder.text() + "/version").peak_bytes;
  const std::string train = concat("train TMP/m.onnx --data random,samples=16 --batch-size 8 --no-autotune --init keep ",
                                   "--json --quiet --overwrite --run-dir TMP/run --output TMP/t.onnx --epochs 1 ");
  const std::string evaluate = "evaluate TMP/t.onnx --data random,samples=16 --batch-size 8 --quiet";
  for (const auto& [rows, lines] : std::vector<std::pair<std::int64_t, std::vector<std::string>>>{
           {12288, {train, "train --resume --run-dir TMP/run --epochs 2 --json --quiet", train + "--ema 0.9", evaluate}},
           {24576, {train + "--ema 0.9"}}}) {
    write_table_model(folder, "m.onnx", rows, width);
    std::int64_t planned = 0;
    for (const std::string& line : lines) {
      const Child child = run_program(words(line, folder.text()), folder.text() + "/events");
      ASSERT_TRUE(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0) << line;
      if (line.starts_with("train")) planned = event(read_file(folder / "events"), "plan").at("predicted_process_bytes").integer();
      EXPECT_LT(child.peak_bytes - start, planned + room) << line << " of " << rows << " rows";
    }
  }
}

// Weights that are all zeros, as in a template that was never trained, are looked at one by one, too.
TEST(Memory, OfAPlanIsNotThatOfTheWeights) {
#ifdef TANDEM_SANITIZED
  GTEST_SKIP() << "a sanitizer's own memory cannot be told from the program's";
#endif
  constexpr std::int64_t layers = 16, width = 2048, bytes = 4 * width * width;
  const TemporaryFolder folder;
  std::ofstream(folder / "weights.bin", std::ios::binary).close();
  std::filesystem::resize_file(folder / "weights.bin", layers * bytes);
  test::Model model;
  model.input("x", concat("N,", width)).output(concat("h", layers));
  for (std::int64_t i = 0; i < layers; ++i) {
    model.add(test::external_tensor(concat("w", i), {width, width}, {{"location", "weights.bin"}, {"offset", concat(i * bytes)}}));
    model.add(test::node("MatMul", {i == 0 ? "x" : concat("h", i), concat("w", i)}, {concat("h", i + 1)}));
  }
  folder.write("m.onnx", model.bytes());
  for (const char* line : {"summary TMP/m.onnx --quiet", "plan TMP/m.onnx --batch-size 8 --devices h100:0-3 --parallel zero=3 --quiet"}) {
    const Child child = run_program(words(line, folder.text()), folder.text() + "/output");
    ASSERT_TRUE(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0) << line;
    EXPECT_LT(child.peak_bytes, base + 4 * bytes) << line;
  }
}

// 24 layers of 4 MiB, which no rank has whole in its arenas: the template's are in memory once, and what is written goes one by one.
TEST(Memory, OfRanksWithPartsHoldsNoSecondModelWhileFilesAreWritten) {
#ifdef TANDEM_SANITIZED
  GTEST_SKIP() << "a sanitizer's own memory cannot be told from the program's";
#endif
  constexpr int layers = 24, width = 1024;
  constexpr std::int64_t weights = 4LL * layers * width * width;
  const TemporaryFolder folder;
  test::Model model;
  model.input("x", concat("N,", width)).output(concat("h", layers));
  for (int i = 0; i < layers; ++i) {
    model.add(test::filled_tensor(concat("w", i), {width, width}));
    model.add(test::node("MatMul", {i == 0 ? "x" : concat("h", i), concat("w", i)}, {concat("h", i + 1)}));
  }
  folder.write("m.onnx", model.bytes());
  for (const std::string ranks : {"", " --processes 2"}) {
    const std::string line = concat("train TMP/m.onnx --data random,samples=8 --batch-size 8 --devices cpu:0-1 --parallel zero=3 ",
                                    "--momentum 0.9 --lr 1e-9 --no-autotune --json --quiet --overwrite --run-dir TMP/run --output TMP/t.onnx", ranks);
    const Child child = run_program(words(line, folder.text()), folder.text() + "/events");
    ASSERT_TRUE(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0) << child.status;
    const std::int64_t of_a_device = event(read_file(folder / "events"), "done").at("predicted_peak_bytes").integer();
    EXPECT_LT(static_cast<double>(child.peak_bytes),
              tolerance * static_cast<double>((ranks.empty() ? 2 : 1) * of_a_device) + base + weights + weights / 4)
        << ranks << ": " << of_a_device << " of a device";
  }
}

// docs/training.md states it.
constexpr std::int64_t most_growth = 8 << 20;

// Files of 48 KB: 7 MB of them, and four times as many.
std::string write_data(const TemporaryFolder& folder, const std::string& format, int samples) {
  constexpr int side = 128;
  const std::string name = concat(format, samples);
  std::string pixels(3 * side * side, '\0');
  const auto draw = [&](int i) {
    for (std::size_t k = 0; k < pixels.size(); ++k) pixels[k] = static_cast<char>(k * 7 + static_cast<std::size_t>(i) * 13);
  };
  if (format == "images") {
    for (int i = 0; i < samples; ++i) {
      std::filesystem::create_directories(folder / concat(name, '/', i % 2));
      draw(i);
      folder.write(concat(name, '/', i % 2, '/', i, ".ppm"), concat("P6 ", side, ' ', side, " 255\n", pixels));
    }
    return "images:TMP/" + name;
  }
  // Written as they come: what this process takes at most counts for those it starts.
  const auto header = [&](std::ofstream& file, const std::string& shape) {
    std::string text = concat("{'descr': '|u1', 'fortran_order': False, 'shape': (", samples, shape, "), }");
    text.resize(117, ' ');
    file << std::string("\x93NUMPY\1\0\x76\0", 10) << text << '\n';
  };
  std::ofstream x(folder / (name + "-x.npy"), std::ios::binary), y(folder / (name + "-y.npy"), std::ios::binary);
  header(x, concat(", 3, ", side, ", ", side));
  header(y, ",");
  for (int i = 0; i < samples; ++i) {
    draw(i);
    x << pixels;
    y << static_cast<char>(i % 2);
  }
  return concat("npy:TMP/", name, "-x.npy,TMP/", name, "-y.npy");
}

class DataMemory : public testing::TestWithParam<const char*> {};
TEST_P(DataMemory, IsThatOfBatchesWhateverTheNumberOfSamples) {
#ifdef TANDEM_SANITIZED
  GTEST_SKIP() << "a sanitizer's own memory cannot be told from the program's";
#endif
  const TemporaryFolder folder;
  test::Model model;
  model.input("x", "N,3,128,128").output("y").add(test::filled_tensor("w", {3 * 128 * 128, 2}));
  model.add(test::node("Flatten", {"x"}, {"f"})).add(test::node("MatMul", {"f", "w"}, {"y"}));
  folder.write("m.onnx", model.bytes());
  std::int64_t peaks[2];
  for (const int i : {0, 1}) {
    const std::string data = write_data(folder, GetParam(), i == 0 ? 150 : 600);
    const Child child =
        run_program(words(concat("train TMP/m.onnx --data ", data,
                                 " --batch-size 8 --workers 2 --lr 1e-6 --no-autotune --quiet --run-dir none --output TMP/t.onnx"),
                          folder.text()),
                    folder.text() + "/log");
    ASSERT_TRUE(WIFEXITED(child.status) && WEXITSTATUS(child.status) == 0) << child.status;
    peaks[i] = child.peak_bytes;
  }
  EXPECT_LT(peaks[1], peaks[0] + most_growth) << peaks[0];
}
INSTANTIATE_TEST_SUITE_P(Formats, DataMemory, testing::Values("images", "npy"));

}  // namespace
}  // namespace tandem
