// The library names options as its API does, the program says their flags: every option that a message names has one.
#include "cli/flags.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "tests/cli/run_tandem.h"
#include "trainer/file.h"

namespace tandem {
namespace {

struct Row {
  const char *said, *shown;
};
const Row rows[] = {
    {"option loss_on names another", "--loss-on names another"},
    {"the loss (option loss) is on 'y' (option loss_on)", "the loss (--loss) is on 'y' (--loss-on)"},
    {"option dims H=SIZE", "--dim H=SIZE"},
    {"unless option synchronize_batch_norm is given", "unless --sync-batch-norm is given"},
    {"ModelFile::tensors() lists them", "tandem summary --weights lists them"},
    {"no option is left", "no option is left"},
    {"option unheard_of: what?", "option unheard_of: what?"},
    {"an option ", "an option "},
};
TEST(Flags, StandInPlaceOfOptions) {
  for (const Row& row : rows) EXPECT_EQ(in_flags(row.said), row.shown);
}

TEST(Flags, AreThoseOfACommand) {
  std::string help;
  for (const char* command : {"train", "plan", "evaluate", "predict", "summary"}) help += run_tandem({command, "--help"}).out;
  for (const FlagName& name : flag_names()) {
    const std::string as_named = concat("  ", name.flag, ' '), as_ended = concat("  --no-", name.flag.substr(2), ' ');  // of what is on by default
    EXPECT_TRUE(help.find(as_named) != std::string::npos || help.find(as_ended) != std::string::npos) << name.flag;
  }
}

// Messages stand in string literals; comments may speak of flags.
TEST(Flags, EveryOptionThatALibrarysMessageNamesHasOne) {
  namespace fs = std::filesystem;
  const std::regex literal("\"((\\\\.|[^\"\\\\\n])*)\""), option("option ([a-z_]+)");
  int named = 0;
  for (const char* folder : {"graph", "importer", "kernels", "planner", "ranks", "runtime", "trainer"})
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(fs::path(TANDEM_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".cpp" || entry.path().filename() == "compiler.cpp") continue;  // CUDA's compiler has flags of its own
      const std::string source = read_file(entry.path());
      for (auto at = std::sregex_iterator(source.begin(), source.end(), literal); at != std::sregex_iterator(); ++at) {
        const std::string text = (*at)[1];
        EXPECT_FALSE(std::regex_search(text, std::regex("(^|[ (])--[a-z]"))) << entry.path() << ": " << text;
        for (auto o = std::sregex_iterator(text.begin(), text.end(), option); o != std::sregex_iterator(); ++o) {
          ++named;
          EXPECT_NE(in_flags((*o)[0].str()), (*o)[0].str()) << entry.path() << ": " << text;
        }
      }
    }
  EXPECT_GT(named, 20);
}

}  // namespace
}  // namespace tandem
