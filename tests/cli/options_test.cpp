#include "cli/options.h"

#include "tests/cli/run_tandem.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

constexpr OptionRow rows[] = {{"config", "FILE", "", ""},
                              {"lr", "X", "0.01", ""},
                              {"batch-size", "N", "32", ""},
                              {"shuffle", "", "on", ""},
                              {"quiet", "", "off", ""}};
constexpr std::string_view positionals[] = {"model"};

Arguments parse(const std::string& line, const std::map<std::string, std::string>& environment = {}) {
  const std::vector<std::string> given = words(line);
  return Arguments::parse(given, positionals, rows, [&](const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(Options, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
  const TemporaryFolder folder;
  const std::string file =
      folder.write("c.json", R"({"command": "train", "model": "file.onnx", "lr": 3, "batch-size": 3, "shuffle": false})");
  const std::map<std::string, std::string> environment{{"TANDEM_LR", "2"}, {"TANDEM_QUIET", "1"}, {"TANDEM_OTHER", "x"}};
  const Arguments a = parse("--lr 1 --config " + file, environment), b = parse("--config " + file, environment), c = parse("");
  EXPECT_EQ(a.number("lr"), 1);
  EXPECT_EQ(b.number("lr"), 2);
  EXPECT_EQ(b.integer("batch-size"), 3);
  EXPECT_EQ(c.number("lr"), 0.01);
  EXPECT_EQ(a.positional("model"), "file.onnx");
  EXPECT_EQ(parse("flag.onnx --config " + file).positional("model"), "flag.onnx");
  EXPECT_FALSE(b.on("shuffle"));
  EXPECT_TRUE(b.on("quiet"));
  EXPECT_FALSE(c.given("lr"));
  EXPECT_TRUE(b.given("lr"));
}

TEST(Options, SwitchesEqualsAndEnd) {
  EXPECT_FALSE(parse("--no-shuffle").on("shuffle"));
  EXPECT_TRUE(parse("--no-shuffle --shuffle").on("shuffle"));
  EXPECT_FALSE(parse("--shuffle=off").on("shuffle"));
  EXPECT_EQ(parse("--lr=-3").number("lr"), -3);
  EXPECT_EQ(parse("--lr -3").number("lr"), -3);
  EXPECT_EQ(parse("-- --lr").positional("model"), "--lr");
  expect_error(ExitCode::usage, "unknown option '--no-lr'", [] { parse("--no-lr"); });
}

TEST(Options, WhatWasResolvedIsReadBack) {
  const TemporaryFolder folder;
  const Arguments a = parse("m.onnx --lr 1e-05 --no-shuffle");
  const std::string file = folder.write("c.json", a.resolved().dump(2));
  const Arguments b = parse("--config " + file);
  EXPECT_EQ(b.resolved().dump(), a.resolved().dump());
  EXPECT_EQ(b.number("lr"), 1e-5);
  EXPECT_EQ(b.positional("model"), "m.onnx");
}

// A run's file read by another command: its data, devices and formats hold there too, not where and how it wrote.
TEST(Options, OfAnotherCommandsFileOnlyWhatConcernsThisOneIsTaken) {
  const TemporaryFolder folder;
  const std::string file = folder.write("c.json", R"({"command": "train", "model": "template.onnx", "output": "trained.onnx", "lr": 0.5,
                                                      "batch-size": 8, "epochs": 3, "quiet": true})");
  const std::vector<std::string> given = words("--config " + file);
  const auto read = [&](const ConfigRules& rules) {
    return Arguments::parse(given, positionals, rows, [](const std::string&) { return nullptr; }, rules);
  };
  const Arguments planned = read({.command = "plan", .elsewhere = {"epochs", "output"}});
  EXPECT_EQ(planned.positional("model"), "template.onnx");
  EXPECT_EQ(planned.integer("batch-size"), 8);
  EXPECT_FALSE(planned.on("quiet"));
  EXPECT_EQ(read({.command = "evaluate", .elsewhere = {"epochs", "output"}, .uses_trained = true}).positional("model"), "trained.onnx");
  expect_error(ExitCode::usage, "unknown key in " + file + " 'epochs'", [&] { read({.command = "plan", .elsewhere = {"output"}}); });
}

}  // namespace
}  // namespace tandem
