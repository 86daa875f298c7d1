// What a command was called with. Its rows (options/flag.h) say what there is, and one parser reads them all. A value comes from the
// flag, else from the environment (TANDEM_BATCH_SIZE for --batch-size), else from --config's file (with --resume: from the
// configuration that the run left in its folder), else from the row.
#pragma once
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "options/values.h"

namespace tandem {

inline constexpr const char* adapter_extension = ".onnx_adapter";  // of what --lora-export adapter writes, in place of the output's

inline constexpr const char* run_folder_key = "started-in";  // of config.json: the folder in which a run was started

// What --config's file may hold beside the command's own options.
struct ConfigRules {
  std::string_view command = "";           // that reads it: of another's file what concerns that one's call alone is left out
  std::vector<std::string> elsewhere = {}; // options of other commands: ignored
  bool uses_trained = false;               // the model is what the run of the file wrote, its --output
};

using Environment = std::function<const char*(const std::string&)>;

class Arguments : public OptionValues {
 public:
  // `given`: what follows the command's name; `positionals`: those that are not options, the last with "..." where any number
  // may follow. Fails (usage) on unknown options and keys, naming the nearest.
  static Arguments parse(std::span<const std::string> given, std::span<const Positional> positionals, std::span<const FlagRow* const> rows,
                         const Environment& environment, const ConfigRules& rules = {});

  using OptionValues::operator[];
  // Fails (usage) where it is missing.
  const std::string& operator[](Positional positional) const;
  bool has(Positional positional) const { return positionals_.find(positional.name) != positionals_.end(); }
  bool has(const FlagRow& flag) const { return values_.contains(flag.name); }  // whether the command has it
  const std::vector<std::string>& rest() const { return rest_; }  // what "..." stands for

  void require(const FlagRow& flag) const;       // fails (usage) where it is empty

  // What reading assumed: a sentence each, for the user.
  const std::vector<std::string>& notes() const { return notes_; }
  const std::string& trained() const { return trained_; }  // the model, where a run's file gave it (ConfigRules::uses_trained)

  // The positionals and the options of some scopes, by name: as it stands, what --config reads back.
  Json resolved(bool (*wanted)(FlagScope) = is_kept) const;

 private:
  std::string config_file() const;  // empty: none
  void read_config_file(const std::string& path, std::span<const Positional> positionals, std::span<const FlagRow* const> rows,
                        const ConfigRules& rules);
  std::map<std::string, std::string, std::less<>> positionals_;
  std::vector<std::string> rest_;
  std::string trained_;
  std::vector<std::string> notes_;
};

// Whether a file is a configuration that a command left.
bool is_run_config(const std::string& path);

}  // namespace tandem
