// Command-line options: every command has a table of rows, and one parser reads them all. A value comes from the flag,
// else from the environment (TANDEM_BATCH_SIZE for --batch-size), else from --config's file (with --resume: from the
// configuration that the run left in its folder), else from the table.
#pragma once
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace tandem {

inline constexpr const char* adapter_extension = ".onnx_adapter";  // of what --lora-export adapter writes, in place of the output's

inline constexpr const char* run_folder_key = "started-in";  // of config.json: the folder in which a run was started

// A row without a name is a heading of the help, its `value`.
struct OptionRow {
  std::string_view name;
  std::string_view value;   // placeholder; empty: a switch, --name and --no-name
  std::string_view absent;  // default; of a switch "on" or "off"
  std::string_view help;
};

// What --config's file may hold beside the command's own options.
struct ConfigRules {
  std::string_view command = "";           // that reads it: of another's file what concerns that one's call alone is left out
  std::vector<std::string> elsewhere = {}; // options of other commands: ignored
  bool uses_trained = false;               // the model is what the run of the file wrote, its --output
};

using Environment = std::function<const char*(const std::string&)>;

class Arguments {
 public:
  // `given`: what follows the command's name; `positionals`: names of those that are not options, the last with "..." where any
  // number may follow. Fails (usage) on unknown
  // options and keys, naming the nearest.
  static Arguments parse(std::span<const std::string> given, std::span<const std::string_view> positionals, std::span<const OptionRow> rows,
                         const Environment& environment, const ConfigRules& rules = {});

  bool given(std::string_view option) const;  // by flag, environment or file
  const std::string& text(std::string_view option) const;
  double number(std::string_view option) const;
  std::int64_t integer(std::string_view option) const;  // not negative
  bool on(std::string_view option) const;
  std::vector<std::string> list(std::string_view option) const;  // separated by commas
  // The n-th positional; fails (usage) where it is missing.
  const std::string& positional(std::string_view name) const;
  bool has_positional(std::string_view name) const { return positionals_.find(name) != positionals_.end(); }
  const std::vector<std::string>& rest() const { return rest_; }  // what "..." stands for
  // What reading assumed: a sentence each, for the user.
  const std::vector<std::string>& notes() const { return notes_; }
  const std::string& trained() const { return trained_; }  // the model, where a run's file gave it (ConfigRules::uses_trained)
  void set(std::string_view option, std::string text);     // as if given so
  void choose(std::string_view option, std::string text);  // what the program chose: resolved() leaves it out
  Json resolved() const;                        // what --config reads back: all but what concerns one call only
  void require(std::string_view option) const;  // fails (usage) where it is empty

 private:
  struct Value {
    std::string text;
    bool given = false, chosen = false;
  };
  std::string config_file() const;  // empty: none
  void read_config_file(const std::string& path, std::span<const std::string_view> positionals, std::span<const OptionRow> rows, const ConfigRules& rules);
  std::map<std::string, Value, std::less<>> values_;
  std::map<std::string, std::string, std::less<>> positionals_;
  std::vector<std::string> rest_;
  std::string trained_;
  std::vector<std::string> notes_;
};

// Whether a file is a configuration that a command left.
bool is_run_config(const std::string& path);

}  // namespace tandem
