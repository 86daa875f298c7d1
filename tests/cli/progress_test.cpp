#include "cli/progress.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "tests/cli/run_tandem.h"

namespace tandem {
namespace {

const ProgressPart training[] = {{"epoch 1", 3},         {"step 47/282", 0},    {"loss 0.5304", 1},
                                 {"accuracy 82.40%", 4}, {"7521 samples/s", 5}, {"4s left", 2}};

struct Row {
  int columns;
  const char* line;
};

TEST(ProgressLine, FitsTheTerminal) {
  const Row rows[] = {
      {200, "[############............] epoch 1  step 47/282  loss 0.5304  accuracy 82.40%  7521 samples/s  4s left"},
      {103, "[############............] epoch 1  step 47/282  loss 0.5304  accuracy 82.40%  7521 samples/s  4s left"},
      {102, "[###########............] epoch 1  step 47/282  loss 0.5304  accuracy 82.40%  7521 samples/s  4s left"},
      {84, "[##...] epoch 1  step 47/282  loss 0.5304  accuracy 82.40%  7521 samples/s  4s left"},
      {80, "[########.........] epoch 1  step 47/282  loss 0.5304  accuracy 82.40%  4s left"},
      {60, "[#######.......] epoch 1  step 47/282  loss 0.5304  4s left"},
      {40, "[######......] step 47/282  loss 0.5304"},
      {33, "[##...] step 47/282  loss 0.5304"},
      {32, "[##..] step 47/282  loss 0.5304"},
      {31, "[########........] step 47/282"},
      {20, "[##...] step 47/282"},
      {10, "step 47/2"},
  };
  for (const Row& row : rows) EXPECT_EQ(progress_line(0.5, training, row.columns), row.line) << row.columns;
}

TEST(ProgressLine, NeverReachesTheLastColumnAndLosesNothingWhereItWidens) {
  std::size_t before = 0;
  for (int columns = 20; columns <= 200; ++columns)
    for (const double share : {0.0, 0.37, 1.0, 1.7}) {
      const std::string line = progress_line(share, training, columns);
      EXPECT_LT(line.size(), static_cast<std::size_t>(columns)) << line;
      EXPECT_TRUE(line.starts_with('[')) << columns << ": " << line;
      EXPECT_NE(line.find("step 47/282"), std::string::npos) << columns << ": " << line;
      EXPECT_EQ(line.find('#') == std::string::npos, share == 0) << line;
      EXPECT_EQ(line.find('.') < line.find(']'), share < 1) << line;
      const std::size_t parts = line.size() - line.find(']');
      EXPECT_GE(parts, before) << columns << ": " << line;
      before = parts;
    }
}

// What a terminal of `columns` shows while a run trains and validates.
std::string drawn(int& columns, const std::function<void(Progress&)>& report) {
  const Environment environment = [](const std::string&) { return nullptr; };
  const Arguments arguments = Arguments::parse({}, {}, {}, environment);
  std::istringstream in;
  std::ostringstream out, err;
  Streams streams{in, out, err, true};
  streams.columns = [&] { return columns; };
  const Invocation call{arguments, streams, environment};
  Progress progress(call, 100);
  report(progress);
  return err.str();
}

TEST(ProgressBar, FollowsTheTerminalsWidth) {
  for (const int width : {20, 33, 80, 200}) {
    int columns = 2 * width;  // it is resized after the first
    const std::string text = drawn(columns, [&](Progress& p) {
      p.step({.epoch = 1, .step = 40, .steps = 100, .samples = 64, .loss = 0.5, .seconds = 0.01});
      columns = width;
      std::this_thread::sleep_for(std::chrono::milliseconds(110));
      p.step({.epoch = 1, .step = 50, .steps = 100, .samples = 64, .loss = 0.5, .seconds = 0.01});
      std::this_thread::sleep_for(std::chrono::milliseconds(110));
      p.validation(32, 64);
    });
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line, '\r');) lines.push_back(line);
    ASSERT_GE(lines.size(), 4u) << text;
    EXPECT_LT(lines[1].size(), 2u * static_cast<std::size_t>(width)) << lines[1];
    EXPECT_NE(lines[1].find("step 40/100"), std::string::npos) << lines[1];
    EXPECT_LT(lines[2].size(), static_cast<std::size_t>(width)) << lines[2];
    EXPECT_NE(lines[2].find("step 50/100"), std::string::npos) << lines[2];
    EXPECT_LT(lines[3].size(), static_cast<std::size_t>(width)) << lines[3];
    EXPECT_NE(lines[3].find("validation"), std::string::npos) << lines[3];
    EXPECT_EQ(text.find('\n'), std::string::npos) << "the bar stays on its line: " << text;
  }
}

}  // namespace
}  // namespace tandem
