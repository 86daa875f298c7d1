// The library names options as its API does, the program says their flags: every option that a message names has one.
#include "cli/flags.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "base/option.h"
#include "tests/cli/run_tandem.h"
#include "tests/importer/model_builder.h"

namespace tandem {
namespace {

TEST(Flags, StandInPlaceOfOptions) {
  EXPECT_EQ(concat(option("loss_on"), " names another"), "option loss_on names another");
  {
    const OptionWords words(program_word);
    EXPECT_EQ(concat(option("loss_on"), " names another"), "--loss-on names another");
    EXPECT_EQ(option("unheard_of"), "option unheard_of");
    EXPECT_EQ(function("ModelFile::tensors()"), "tandem summary --weights");
    const OptionWords others([](std::string_view name) { return name == "cut" ? std::string("--at") : program_word(name); });
    EXPECT_EQ(option("cut") + option("loss"), "--at--loss");
  }
  EXPECT_EQ(function("ModelFile::tensors()"), "ModelFile::tensors()");
}

// What users call files and values is not looked through for options.
TEST(Flags, NoTextOfAUsersIsRewritten) {
  for (const std::string name : {"option loss", "option loss_on names another", "ModelFile::tensors()", "--loss", "\x01loss\x02"}) {
    test::TemporaryFolder folder;
    const std::filesystem::path where = folder / name;
    std::filesystem::create_directories(where);
    test::Model m;
    m.input("x", "N,2").add(test::filled_tensor(name + "/w", {2, 3})).add(test::node("MatMul", {"x", name + "/w"}, {name}));
    const std::string model = (where / "model.onnx").string(), trained = (where / "trained.onnx").string();
    test::write_file(model, m.output(name).bytes());
    const auto json = [](const std::string& text) { return Json(text).dump(); };
    const Outcome train =
        run_tandem({"train", model, "--data", "random,samples=4", "--epochs", "1", "--batch-size", "2", "--output", trained, "--json"});
    EXPECT_EQ(train.code, 0) << train.err;
    EXPECT_NE(train.out.find(json(trained)), std::string::npos) << train.out;
    const Outcome plan = run_tandem({"plan", model, "--format", "json"}), summary = run_tandem({"summary", model, "--weights", "--json"});
    EXPECT_NE(plan.out.find(concat("\"name\":", json(name + "/w"))), std::string::npos) << name;
    EXPECT_NE(summary.out.find(json(name + "/w")), std::string::npos) << summary.out;
    const std::string gone = (where / "gone.onnx").string();
    const Outcome missing = run_tandem({"plan", gone, "--json"});
    EXPECT_NE(missing.code, 0);
    EXPECT_NE(missing.out.find(json(gone).substr(1, json(gone).size() - 2)), std::string::npos) << missing.out;
    const Outcome value = run_tandem({"plan", model, "--loss-on", name + "?", "--json"});
    EXPECT_EQ(value.code, 2) << value.err;
    EXPECT_NE(value.out.find(concat("--loss-on ", json(name + "?").substr(1, json(name + "?").size() - 2))), std::string::npos)
        << value.out;
  }
}

// By the rule, and by a row that says so; the row that says so counts.
TEST(Flags, AreFoundByTheFieldsThatTheySet) {
  for (const auto& [field, flag] : std::map<std::string, std::string>{{"loss_on", "--loss-on"},
                                                                      {"batch", "--batch-size"},
                                                                      {"checkpoint_steps", "--checkpoint-every"},
                                                                      {"learning_rate", "--lr"},
                                                                      {"dims", "--dim"},
                                                                      {"outputs", "--outputs"},
                                                                      {"cut", "--cut"},
                                                                      {"loss on", ""}})
    EXPECT_EQ(program_word(field), flag) << field;
  EXPECT_EQ(flag_of(cut_command(), "cut"), "--at");
}

// A name is one option of a command.
TEST(Flags, AreNamedOnceByACommand) {
  for (const Command& command : commands()) {
    std::set<std::string_view> names;
    for (const FlagRow* row : rows_of(command)) EXPECT_TRUE(names.insert(row->name).second) << command.name << ' ' << row->name;
  }
}

// What the program's own messages and pages call options are some.
TEST(Flags, ThatTheProgramNamesAreThere) {
  namespace fs = std::filesystem;
  std::set<std::string> names{"--version", "--signal", "--no-"};  // and Slurm's
  for (const Command& command : commands())
    for (const FlagRow* row : rows_of(command)) names.insert({row->flag(), concat("--no-", row->name)});
  const std::regex literal("\"((\\\\.|[^\"\\\\\n])*)\""), flag("--[a-z][a-z-]+");
  for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(TANDEM_SOURCE_DIR) / "cli")) {
    if (!entry.is_regular_file() || entry.path().filename() == "completion.cpp") continue;  // which speaks to shells
    const std::string source = read_file(entry.path());
    for (auto at = std::sregex_iterator(source.begin(), source.end(), literal); at != std::sregex_iterator(); ++at) {
      const std::string text = (*at)[1];
      for (auto f = std::sregex_iterator(text.begin(), text.end(), flag); f != std::sregex_iterator(); ++f)
        EXPECT_TRUE(names.contains(f->str())) << entry.path() << ": " << f->str();
    }
  }
}

// Messages stand in string literals; comments may speak of flags.
TEST(Flags, EveryOptionThatALibrarysMessageNamesHasOne) {
  namespace fs = std::filesystem;
  const std::regex literal("\"((\\\\.|[^\"\\\\\n])*)\""), spelled("(^|[ (])(--[a-z]|option [a-z_]+)"),
      option("[^a-z_]option\\(\"([a-z_]+)\"\\)");
  int named = 0;
  for (const char* folder : {"graph", "importer", "kernels", "planner", "ranks", "runtime", "trainer", "options"})
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(fs::path(TANDEM_SOURCE_DIR) / folder)) {
      // CUDA's compiler has flags of its own
      if (entry.path().extension() != ".cpp" || entry.path().filename() == "compiler.cpp") continue;
      const std::string source = read_file(entry.path());
      for (auto at = std::sregex_iterator(source.begin(), source.end(), literal); at != std::sregex_iterator(); ++at)
        EXPECT_FALSE(std::regex_search((*at)[1].str(), spelled)) << entry.path() << ": " << (*at)[1];
      for (auto o = std::sregex_iterator(source.begin(), source.end(), option); o != std::sregex_iterator(); ++o) {
        ++named;
        EXPECT_FALSE(program_word((*o)[1].str()).empty()) << entry.path() << ": " << (*o)[1];
      }
    }
  EXPECT_GT(named, 100);
}

}  // namespace
}  // namespace tandem
