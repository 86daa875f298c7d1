#include "cli/options.h"

#include "tests/cli/run_tandem.h"
#include "tests/trainer/temporary_folder.h"

namespace tandem {
namespace {

enum class Colour { red, green };
constexpr FlagWord<Colour> colours[] = {{"red", Colour::red}, {"green", Colour::green}};

struct Flags : FlagGroup {
  Flag<std::string> config{*this, "config", "FILE", "", "", {.scope = FlagScope::call}};
  Flag<double> lr{*this, "lr", "X", "0.01", ""};
  Flag<std::int64_t> batch_size{*this, "batch-size", "N", "32", "", whole<1, 64>};
  Flag<std::optional<double>> momentum{*this, "momentum", "X", "", ""};
  Flag<double> share{*this, "share", "X", "1", "", positive};
  Flag<Colour> colour{*this, "colour", "NAME", "green", "", one_of<colours>};
  Flag<std::vector<std::string>> names{*this, "names", "LIST", "", ""};
  Switch shuffle{*this, "shuffle", on, ""};
  Switch again{*this, "again", off, "", {.scope = FlagScope::call}};
  Switch quiet{*this, "quiet", off, "", {.scope = FlagScope::place}};
};
constexpr Flags flags;
constexpr Positional positionals[] = {model_file};

Arguments parse(const std::string& line, const std::map<std::string, std::string>& environment = {}) {
  const std::vector<std::string> given = words(line);
  return Arguments::parse(given, positionals, flags.rows(), [&](const std::string& name) {
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
  EXPECT_EQ(a[flags.lr], 1);
  EXPECT_EQ(b[flags.lr], 2);
  EXPECT_EQ(b[flags.batch_size], 3);
  EXPECT_EQ(c[flags.lr], 0.01);
  EXPECT_EQ(a[model_file], "file.onnx");
  EXPECT_EQ(parse("flag.onnx --config " + file)[model_file], "flag.onnx");
  EXPECT_FALSE(b[flags.shuffle]);
  EXPECT_TRUE(b[flags.quiet]);
  EXPECT_FALSE(c.given(flags.lr));
  EXPECT_TRUE(b.given(flags.lr));
}

TEST(Options, SwitchesEqualsAndEnd) {
  EXPECT_FALSE(parse("--no-shuffle")[flags.shuffle]);
  EXPECT_TRUE(parse("--no-shuffle --shuffle")[flags.shuffle]);
  EXPECT_FALSE(parse("--shuffle=off")[flags.shuffle]);
  EXPECT_EQ(parse("--lr=-3")[flags.lr], -3);
  EXPECT_EQ(parse("--lr -3")[flags.lr], -3);
  EXPECT_EQ(parse("-- --lr")[model_file], "--lr");
  expect_error(ExitCode::usage, "unknown option '--no-lr'", [] { parse("--no-lr"); });
}

TEST(Options, WhatWasResolvedIsReadBack) {
  const TemporaryFolder folder;
  const Arguments a = parse("m.onnx --lr 1e-05 --no-shuffle");
  const std::string file = folder.write("c.json", a.resolved().dump(2));
  const Arguments b = parse("--config " + file);
  EXPECT_EQ(b.resolved().dump(), a.resolved().dump());
  EXPECT_EQ(b[flags.lr], 1e-5);
  EXPECT_EQ(b[model_file], "m.onnx");
}

TEST(Options, TextsBecomeValuesOfTheirType) {
  const Arguments absent = parse(""), given = parse("--momentum 0.9 --colour red --names a,b");
  EXPECT_EQ(absent[flags.momentum], std::nullopt);
  EXPECT_EQ(given[flags.momentum], 0.9);
  EXPECT_EQ(absent[flags.colour], Colour::green);
  EXPECT_EQ(given[flags.colour], Colour::red);
  EXPECT_EQ(given[flags.names], (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(Arguments()[flags.batch_size], 32) << "of a command that has no such option";
  struct Row {
    const char *given, *says;
    std::function<void(const Arguments&)> read;
  };
  const auto batch = [](const Arguments& a) { a[flags.batch_size]; };
  for (const Row& row :
       {Row{"--batch-size 0", "--batch-size 0: expected 1 to 64", batch},
        Row{"--batch-size 65", "--batch-size 65: expected 1 to 64", batch},
        Row{"--batch-size 2.5", "--batch-size: '2.5' is not a whole number", batch},
        Row{"--share 0", "--share 0: expected more than 0", [](const Arguments& a) { a[flags.share]; }},
        Row{"--momentum x", "--momentum: 'x' is not a number", [](const Arguments& a) { a[flags.momentum]; }},
        Row{"--colour gren", "--colour 'gren': expected red or green, did you mean 'green'?", [](const Arguments& a) { a[flags.colour]; }}})
    expect_error(ExitCode::usage, row.says, [&] { row.read(parse(row.given)); });
}

TEST(Options, OfOneCallAreNotKept) {
  const Json kept = parse("m.onnx --again --quiet --lr 2").resolved(),
             alike = parse("m.onnx --again --quiet --lr 2").resolved(is_alike_on_ranks);
  EXPECT_EQ(kept.find("again"), nullptr);
  EXPECT_NE(kept.find("quiet"), nullptr);
  EXPECT_NE(kept.find("lr"), nullptr);
  EXPECT_EQ(alike.find("quiet"), nullptr) << "each rank may speak as it likes";
  EXPECT_NE(alike.find("lr"), nullptr);
}

// A run's file read by another command: its data, devices and formats hold there too, not where and how it wrote.
TEST(Options, OfAnotherCommandsFileOnlyWhatConcernsThisOneIsTaken) {
  const TemporaryFolder folder;
  const std::string file = folder.write("c.json", R"({"command": "train", "model": "template.onnx", "output": "trained.onnx", "lr": 0.5,
                                                      "batch-size": 8, "epochs": 3, "quiet": true})");
  const std::vector<std::string> given = words("--config " + file);
  const auto read = [&](const ConfigRules& rules) {
    return Arguments::parse(given, positionals, flags.rows(), [](const std::string&) { return nullptr; }, rules);
  };
  const Arguments planned = read({.command = "plan", .elsewhere = {"epochs", "output"}});
  EXPECT_EQ(planned[model_file], "template.onnx");
  EXPECT_EQ(planned[flags.batch_size], 8);
  EXPECT_FALSE(planned[flags.quiet]);
  EXPECT_EQ(read({.command = "evaluate", .elsewhere = {"epochs", "output"}, .uses_trained = true})[model_file], "trained.onnx");
  expect_error(ExitCode::usage, "unknown key in " + file + " 'epochs'", [&] { read({.command = "plan", .elsewhere = {"output"}}); });
}

}  // namespace
}  // namespace tandem
