// Run folders that are chosen by themselves, what `tandem runs` says of them, and all that is made of the options' tables.
#include <algorithm>

#include "base/file.h"
#include "cli/command.h"
#include "cli/help.h"
#include "tests/cli/process.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

const std::string digits = "MODELS/mlp.onnx --data synthetic:digits,train=64,test=16 --no-autotune ";

// As a user calls it: a line that speaks of --run-dir is left without the harness's "none".
Outcome shell(const TemporaryFolder& folder, const std::string& line) {
  return Process::shell(folder, "said", ": --run-dir; " + line).wait();
}

std::size_t widest(const std::string& text) {
  std::size_t most = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) most = std::max(most, line.size());
  return most;
}

std::string folders(const TemporaryFolder& folder) {
  std::vector<std::string> names;
  if (fs::exists(folder / "runs"))
    for (const auto& entry : fs::directory_iterator(folder / "runs")) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : " ") + name;
  return all;
}

struct Row {
  const char* name;
  std::string line;   // after a first run, mlp-1, is there
  int code;
  std::string says;   // on stderr
  std::string there;  // below runs/
};
class RunFolders : public testing::TestWithParam<Row> {};
TEST_P(RunFolders, AreChosenWhereNoneIsGiven) {
  const TemporaryFolder folder;
  const Outcome first = shell(folder, "TANDEM train " + digits);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.err.find("run folder: runs/mlp-1 (--run-dir DIR for another, none for none)"), std::string::npos) << first.err;
  const Outcome o = shell(folder, GetParam().line);
  EXPECT_EQ(o.code, GetParam().code) << o.err;
  EXPECT_NE(o.err.find(GetParam().says), std::string::npos) << o.err;
  EXPECT_EQ(folders(folder), GetParam().there);
}
INSTANTIATE_TEST_SUITE_P(
    Rows, RunFolders,
    testing::Values(Row{"next_number", "TANDEM train " + digits, 0, "run folder: runs/mlp-2 ", "mlp-1 mlp-2"},
                    Row{"largest_number", "mkdir runs/mlp-41 runs/mlp-x; TANDEM train " + digits, 0, "run folder: runs/mlp-42 ", "mlp-1 mlp-41 mlp-42 mlp-x"},
                    Row{"none", "TANDEM train --run-dir none " + digits, 0, "", "mlp-1"},
                    Row{"dry_run", "TANDEM train --dry-run " + digits, 0, "", "mlp-1"},
                    Row{"data_that_is_not_there", "TANDEM train MODELS/mlp.onnx --data idx:nowhere", 7, "error: ", "mlp-1"},
                    Row{"again_by_its_configuration", "TANDEM train --config runs/mlp-1/config.json", 0, "run folder: runs/mlp-2 ", "mlp-1 mlp-2"},
                    Row{"resumed", "TANDEM train --resume --run-dir runs/mlp-1 --epochs 2", 0, "epoch 2/2", "mlp-1"},
                    Row{"resumed_without_a_name", "TANDEM train --resume " + digits, 2, "--resume needs --run-dir", "mlp-1"},
                    Row{"two_ranks", "TANDEM train --devices cpu:0-1 --processes 2 " + digits, 0, "run folder: runs/mlp-2 ", "mlp-1 mlp-2"},
                    Row{"no_place", "rm -r runs; touch runs; TANDEM train --output o.onnx " + digits + "; code=$?; rm runs; exit $code", 0, "note: no run folder: runs: ", ""}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Runs, AreListedWithTheirEndsAndCompared) {
  const TemporaryFolder folder;
  const Outcome o =
      shell(folder, "TANDEM train " + digits + "--lr 0.05 --epochs 2 && TANDEM train " + digits + "--lr 0.1 && TANDEM train " + digits +
                        "--lr 1e12 --epochs 3; cp -r runs/mlp-1 runs/gone; rm runs/gone/end.json; mkdir runs/other");
  const Outcome list = shell(folder, "TANDEM runs");
  EXPECT_EQ(list.code, 0) << list.err;
  for (const char* part : {"run ", "state", "runs/mlp-1  done", "2/2", "runs/mlp-2  done", "runs/mlp-3  failed", "runs/gone   killed",
                           "val_accuracy 0.", " step "})
    EXPECT_NE(list.out.find(part), std::string::npos) << part << '\n' << list.out;
  EXPECT_EQ(list.out.find("runs/other"), std::string::npos);
  for (const char* columns : {"60", "100"}) {
    const Outcome fitting = shell(folder, concat("COLUMNS=", columns, " TANDEM runs"));
    EXPECT_LE(widest(fitting.out), static_cast<std::size_t>(std::stoi(columns))) << fitting.out;
  }
  const Outcome compared = shell(folder, "TANDEM runs runs/mlp-1 runs/mlp-2 --output both.png");
  EXPECT_EQ(compared.code, 0) << compared.err;
  EXPECT_NE(compared.out.find("--lr "), std::string::npos) << compared.out;
  EXPECT_EQ(compared.out.find("--optimizer"), std::string::npos) << "they have it alike: " << compared.out;
  EXPECT_TRUE(read_file(folder / "both.png").starts_with("\x89PNG\r\n\x1a\n"));
  EXPECT_EQ(shell(folder, "TANDEM runs runs/mlp-1 runs/mlp-2 --output both.svg").code, 0);
  const std::string svg = read_file(folder / "both.svg");
  for (const char* part : {"val_accuracy", ">mlp-1<", ">mlp-2<"}) EXPECT_NE(svg.find(part), std::string::npos) << part;
  const Outcome json = shell(folder, "TANDEM runs runs/mlp-1 runs/mlp-2 --json");
  const Json said = Json::parse(json.out);
  EXPECT_EQ(said.at("runs").array().size(), 2u);
  EXPECT_EQ(said.at("runs").array()[0].at("best").at("metric").text(), "val_accuracy");
  EXPECT_EQ(said.at("differ").at("lr").array()[1].number(), 0.1);
  EXPECT_EQ(shell(folder, "TANDEM runs nowhere").code, 7);
  EXPECT_EQ(shell(folder, "TANDEM runs runs --output both.jpg").code, 2);
}

TEST(Runs, LeaveTheirMetricsAsTheyWereMeasured) {
  const TemporaryFolder folder;
  const Outcome o = run_tandem(words("train " + digits + "--epochs 2 --json --run-dir TMP/run --output TMP/o.onnx", folder.text()));
  ASSERT_EQ(o.code, 0) << o.err;
  std::vector<Json> steps, epochs;
  std::istringstream lines(o.out);
  for (std::string line; std::getline(lines, line);) {
    const Json event = Json::parse(line);
    if (event.at("event").text() == "step") steps.push_back(event);
    if (event.at("event").text() == "epoch") epochs.push_back(event);
  }
  std::istringstream rows(read_file(folder / "run/metrics.jsonl"));
  std::string line;
  for (const Json& epoch : epochs) {
    ASSERT_TRUE(std::getline(rows, line));
    for (const char* key : {"loss", "val_loss", "val_accuracy"}) EXPECT_EQ(Json::parse(line).at(key).number(), epoch.at(key).number());
  }
  std::istringstream csv(read_file(folder / "run/steps.csv"));
  std::getline(csv, line);
  EXPECT_EQ(line, "step,epoch,loss,accuracy,learning_rate,seconds,samples");
  for (const Json& step : steps) {
    ASSERT_TRUE(std::getline(csv, line));
    EXPECT_TRUE(line.starts_with(concat(step.at("step").integer(), ',', step.at("epoch").integer(), ',', step.at("loss").number(), ',')))
        << line;
  }
  EXPECT_FALSE(std::getline(csv, line));
}

struct Interval {
  const char *every, *kept, *says;  // step-N.checkpoint of four steps; where it is refused: why
};
TEST(CheckpointEvery, TakesStepsAndTimes) {
  for (const Interval& row : {Interval{"2", "2 4", ""},
                              {"3", "3 4", ""},
                              {"1h", "4", ""},
                              {"0.000001s", "1 2 3 4", ""},
                              {"5x", "", "--checkpoint-every: "},
                              {"-1", "", "expected a number of steps, or a time"},
                              {"0m", "", "expected more than no time"}}) {
    const TemporaryFolder folder;
    const Outcome o = run_tandem(
        words(concat("train ", digits, "--batch-size 16 --keep-checkpoints 9 --run-dir TMP/run --output TMP/o.onnx --checkpoint-every ",
                     row.every),
              folder.text()));
    EXPECT_EQ(o.code, *row.says ? 2 : 0) << row.every << ": " << o.err;
    EXPECT_NE(o.err.find(row.says), std::string::npos) << o.err;
    std::string kept;
    for (int step = 1; step <= 4; ++step)
      if (fs::exists(folder / concat("run/step-", step, ".checkpoint"))) kept += concat(kept.empty() ? "" : " ", step);
    EXPECT_EQ(kept, row.kept) << row.every;
  }
}

TEST(Configurations, MayBeARunsFolder) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_tandem(words("train " + digits + "--run-dir TMP/run --output TMP/o.onnx", folder.text())).code, 0);
  for (const char* line :
       {"evaluate --config TMP/run", "predict --config TMP/run --output TMP/y.npy", "plan --config TMP/run --format summary"}) {
    const Outcome o = run_tandem(words(line, folder.text()));
    EXPECT_EQ(o.code, 0) << line << ": " << o.err;
  }
  const Outcome other = run_tandem(words("evaluate --config TMP", folder.text()));
  EXPECT_EQ(other.code, 7);
  EXPECT_NE(other.err.find("config.json"), std::string::npos) << other.err;
}

// The last line of the output, too, for whoever reads that.
TEST(JsonErrors, StandOnTheOutput) {
  for (const auto& [line, code] : {std::pair<const char*, int>{"train nowhere.onnx --data random --json", 7},
                                   {"plan --json --lrr 1 x", 2},
                                   {"runs /nowhere --json", 7}}) {
    const Outcome o = run_tandem(words(line));
    EXPECT_EQ(o.code, code) << line;
    const Json error = Json::parse(o.out);
    EXPECT_EQ(error.at("event").text(), "error");
    EXPECT_EQ(error.at("code").integer(), code);
    EXPECT_NE(o.err.find(error.at("error").text()), std::string::npos) << o.err;
  }
}

TEST(Choices, AreThoseThatNobodyMadeWithTheOptionThatOverrulesEach) {
  const TemporaryFolder folder;
  const Outcome o = run_tandem(words("train " + digits + "--lr 0.3 --dry-run --output TMP/o.onnx", folder.text()));
  ASSERT_EQ(o.code, 0) << o.err;
  for (const char* part :
       {"overruled by", "--loss", "softmax-cross-entropy", "classes", "--batch-size", "--normalize", "16 samples", "--epochs"})
    EXPECT_NE(o.err.find(part), std::string::npos) << part << '\n' << o.err;
  EXPECT_NE(o.err.find("because"), std::string::npos) << "there is room for it in 100 columns: " << o.err;
  EXPECT_EQ(o.err.find("\\x0a"), std::string::npos) << o.err;
  EXPECT_EQ(o.err.find("learning rate"), std::string::npos) << "it was given: " << o.err;
  const Outcome json = run_tandem(words("train " + digits + "--lr 0.3 --dry-run --json --output TMP/o.onnx", folder.text()));
  const Json plan = Json::parse(json.out);
  const Json::Array& choices = plan.at("choices").array();
  ASSERT_FALSE(choices.empty());
  EXPECT_TRUE(std::any_of(choices.begin(), choices.end(),
                          [](const Json& c) { return c.at("option").text() == "--epochs" && c.at("value").text() == "1"; }));
}

class Pages : public testing::TestWithParam<std::string> {};
TEST_P(Pages, FitEveryTerminalAndNameEveryOption) {
  const std::vector<Command> all = commands();
  const auto command = std::find_if(all.begin(), all.end(), [&](const Command& c) { return c.name == GetParam(); });
  const std::string man = man_page(&*command), bash = completion_of("bash"), zsh = completion_of("zsh"), fish = completion_of("fish");
  for (const std::size_t columns : {60u, 100u}) {
    const std::string help = help_of(*command, columns, "all");
    EXPECT_LE(widest(help), columns) << help;
    EXPECT_LE(widest(help_of(*command, columns)), columns);
    for (const FlagRow* row : rows_of(*command)) {
      const std::string name = concat(row->is_on_by_default() ? "no-" : "", row->name);
      std::size_t times = 0;
      for (std::size_t at = 0; (at = help.find(concat("\n  --", name), at)) != std::string::npos; ++at)
        times += help.find_first_of(" \n", at + 3) == at + 5 + name.size();
      EXPECT_EQ(times, 1u) << name;
      EXPECT_NE(bash.find("--" + name), std::string::npos);
      EXPECT_NE(zsh.find(concat("'--", name)), std::string::npos);
      EXPECT_NE(fish.find(concat("__fish_seen_subcommand_from ", command->name, "' -l ", name)), std::string::npos);
      std::string in_man = "--" + name;
      for (std::size_t at = 0; (at = in_man.find('-', at)) != std::string::npos; at += 2) in_man.insert(at, "\\");
      EXPECT_NE(man.find(".B " + in_man), std::string::npos) << in_man;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, Pages, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const Command& c : commands()) names.emplace_back(c.name);
                           return names;
                         }()),
                         [](const auto& row) { return row.param; });

TEST(Help, BeginsWithWhatIsUsedMost) {
  EXPECT_TRUE(run_tandem({"train", "--help", "several processes"}).out.starts_with("several processes:\n  --processes N"));
  const std::string help = run_tandem({"train", "--help"}).out;
  EXPECT_LT(help.find("most used:\n  --data SPEC"), help.find("normalize"));
  std::size_t options = 0;
  const std::size_t begin = help.find("most used:");
  const std::string first = help.substr(begin, help.find("\n\n", begin) - begin);
  for (std::size_t at = 0; (at = first.find("\n  --", at)) != std::string::npos; ++at) ++options;
  EXPECT_EQ(options, 10u);
  EXPECT_LE(widest(run_tandem({"help"}, {{"COLUMNS", "60"}}).out), 60u);
}

TEST(Completion, IsReadByTheShell) {
  const TemporaryFolder folder;
  const Outcome o = shell(folder,
                          "TANDEM completion bash > c && bash -c 'source ./c; COMP_WORDS=(tandem train --lr-s); COMP_CWORD=2; _tandem; "
                          "echo \"${COMPREPLY[@]}\"; "
                          "COMP_WORDS=(tandem ev); COMP_CWORD=1; _tandem; echo \"${COMPREPLY[@]}\"'");
  EXPECT_EQ(o.out, "--lr-schedule\nevaluate\n") << o.err;
  EXPECT_EQ(run_tandem({"completion", "csh"}).code, 2);
}

}  // namespace
}  // namespace tandem
