#include "cli/options.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/file.h"
#include "base/printable.h"
#include "base/spec.h"
#include "cli/common_flags.h"
#include "options/text.h"
#include "options/train_flags.h"
#include "options/weight_flags.h"

namespace tandem {
namespace {

constexpr std::string_view see_help = ", see --help";

[[noreturn]] void unknown(std::string_view what, std::string_view name, FlagRows rows, std::string_view before) {
  unknown_option(what, name, rows, before, see_help);
}

Json::Object read_config(const std::string& path) {
  const std::string contents = read_file(path);
  try {
    return Json::parse(contents).object();
  } catch (const Error& e) {
    fail(ExitCode::usage, path, ": ", e.what());
  }
}

// What a run's file says of paths, seen from the folder in which it is read: relative paths are those of the folder in which the run was
// started.
class ConfigPaths {
 public:
  explicit ConfigPaths(const std::string& folder) : folder_(folder) {}
  // `text`: a path, or a data set's kind and paths ("npz:a.npz,val=b.npz"). A relative path that is not here and is there becomes that one.
  std::string found(std::string_view text) {
    std::string out;
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find_first_of(":,=", at), text.size());
      const std::filesystem::path piece = text.substr(at, end - at), there = folder_ / piece;
      const bool moves = !piece.empty() && piece.is_relative() && !folder_.empty() && is_there(there) && !is_there(piece);
      moved_ = moved_ || moves;
      out += moves ? there.string() : piece.string();
      if (end < text.size()) out += text[end];
      at = end + 1;
    }
    return out;
  }
  bool moved() const { return moved_; }

 private:
  static bool is_there(const std::filesystem::path& path) {
    std::error_code error;
    const bool shards = path.filename().string().find_first_of("*{?[") != std::string::npos;
    return std::filesystem::exists(shards ? path.parent_path() : path, error);
  }
  std::filesystem::path folder_;
  bool moved_ = false;
};

// The words of a command line.
struct Words {
  std::vector<std::string> bare;
  std::vector<std::pair<const FlagRow*, std::string>> options;
};
Words read_words(std::span<const std::string> given, FlagRows rows) {
  Words words;
  bool options_end = false;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string& word = given[i];
    if (options_end || !word.starts_with('-') || word == "-") {
      words.bare.push_back(word);
      continue;
    }
    if (word == "--") {
      options_end = true;
      continue;
    }
    const std::size_t equals = word.find('=');
    const bool has_value = equals != std::string::npos, is_long = word.starts_with("--");
    const std::string name = word == "-h" ? "help" : word.substr(0, equals).substr(is_long ? 2 : 1);
    const FlagRow* row = is_long || word == "-h" ? find_row(rows, name) : nullptr;
    const FlagRow* const off = name.starts_with("no-") ? find_row(rows, name.substr(3)) : nullptr;
    if (row && row->is_switch()) {
      words.options.emplace_back(row, has_value ? switch_text(word.substr(equals + 1), *row) : "on");
    } else if (row) {
      if (!has_value && i + 1 == given.size()) fail(ExitCode::usage, row->flag(), " needs a value: ", row->value);
      words.options.emplace_back(row, has_value ? word.substr(equals + 1) : given[++i]);
    } else if (off && off->is_switch() && !has_value) {
      words.options.emplace_back(off, "off");
    } else {
      unknown("option", word.substr(0, equals), rows, "--");
    }
  }
  return words;
}

}  // namespace

Arguments Arguments::parse(std::span<const std::string> given, std::span<const Positional> positionals, FlagRows rows,
                           const Environment& environment, const ConfigRules& rules) {
  Arguments a;
  const auto [bare, options] = read_words(given, rows);
  for (const auto& [row, text] : options) a.values_[row->name] = {row, text, true};
  const bool any_number = !positionals.empty() && positionals.back().name.ends_with("...");
  const std::size_t named = positionals.size() - any_number;
  if (bare.size() > named && !any_number) fail(ExitCode::usage, "unexpected argument '", bare[named], "'");
  for (std::size_t i = 0; i < std::min(named, bare.size()); ++i) a.positionals_.emplace(positionals[i].name, bare[i]);
  if (bare.size() > named) a.rest_.assign(bare.begin() + static_cast<std::ptrdiff_t>(named), bare.end());

  for (const FlagRow* row : rows) {
    const char* value = a.values_.contains(row->name) ? nullptr : environment(row->variable());
    if (value) a.values_.emplace(row->name, Value{row, row->is_switch() ? switch_text(value, *row) : std::string(value), true});
  }
  if (const std::string path = a.config_file(); !path.empty()) a.read_config_file(path, positionals, rows, rules);
  for (const FlagRow* row : rows) a.values_.emplace(row->name, Value{row, std::string(row->absent)});
  return a;
}

namespace {

// What a run wrote: its output, or, where adapters were not merged, what they belong to and their file.
struct TrainedFiles {
  std::string model, adapter;
};
TrainedFiles trained_files(const Json::Object& config) {
  const auto text = [&](std::string_view key) {
    const auto it = std::find_if(config.begin(), config.end(), [&](const auto& pair) { return pair.first == key; });
    return it == config.end() ? std::string() : text_of_json(it->second);
  };
  const std::string output = text(output_flags.output.name), how = text(output_flags.lora_export.name);
  const bool adapted = !text(tune_flags.lora.name).empty() || !text(adapter_flags.adapter.name).empty();
  if (!adapted || how.empty() || how.find("merged") != std::string::npos) return {output, ""};
  return {how.find("inputs") == std::string::npos ? text(model_file.name) : output, path_beside(output, adapter_extension).string()};
}

}  // namespace

void Arguments::read_config_file(const std::string& path, std::span<const Positional> positionals, FlagRows rows,
                                 const ConfigRules& rules) {
  const Json::Object config = read_config(path);
  const bool another = std::any_of(config.begin(), config.end(),
                                   [&](const auto& pair) { return pair.first == "command" && text_of_json(pair.second) != rules.command; });
  const bool trained = another && rules.uses_trained;
  const auto started = std::find_if(config.begin(), config.end(), [](const auto& pair) { return pair.first == run_folder_key; });
  const std::string folder = started == config.end() ? "" : text_of_json(started->second);
  ConfigPaths paths(folder);
  if (trained) {
    TrainedFiles files = trained_files(config);
    files = {paths.found(files.model), paths.found(files.adapter)};
    if (!files.model.empty() && positionals_.emplace(model_file.name, files.model).second) {
      trained_ = files.adapter.empty() ? files.model : concat(files.model, " with ", files.adapter);
      if (!files.adapter.empty()) values_.emplace(adapter_flags.adapter.name, Value{&adapter_flags.adapter, files.adapter, true});
    }
  }
  for (const auto& [key, value] : with_placement(config, concat(path, ", "), rows, see_help)) {
    if (key == "command" || key == run_folder_key || (trained && (key == model_file.name || key == adapter_flags.adapter.name))) continue;
    if (std::ranges::find(positionals, key, &Positional::name) != positionals.end()) {
      positionals_.emplace(key, paths.found(text_of_json(value)));
      continue;
    }
    const FlagRow* row = find_row(rows, key);
    if (!row && std::ranges::find(rules.elsewhere, key) != rules.elsewhere.end()) continue;
    if (!row) unknown(concat("key in ", path), key, rows, "");
    if (another && !serves_other_commands(row->traits.scope)) continue;
    const std::string text = option_text(*row, value);
    values_.emplace(row->name, Value{row, row->traits.paths ? paths.found(text) : text, true});
  }
  if (paths.moved()) notes_.push_back(concat(path, ": its relative paths are taken from ", folder, ", where that run was started"));
}

bool is_run_config(const std::string& path) {
  try {
    const Json::Object config = read_config(path);
    return std::any_of(config.begin(), config.end(), [](const auto& pair) { return pair.first == "command"; });
  } catch (const Error&) {
    return false;
  }
}

std::string Arguments::config_file() const {
  const std::string asked = text(common_flags.config), run = text(record_flags.run_dir);
  if (std::filesystem::is_directory(asked)) return (std::filesystem::path(asked) / "config.json").string();  // a run's folder
  if (!asked.empty() || !(*this)[record_flags.resume] || run.empty()) return asked;
  const std::filesystem::path left = std::filesystem::path(run) / "config.json";
  return std::filesystem::exists(left) ? left.string() : "";
}

const std::string& Arguments::operator[](Positional positional) const {
  const auto found = positionals_.find(positional.name);
  if (found == positionals_.end()) fail(ExitCode::usage, "missing argument ", positional.name, ", see --help");
  return found->second;
}

void Arguments::require(const FlagRow& flag) const {
  if (text(flag).empty()) fail(ExitCode::usage, flag.flag(), " is missing, see --help");
}

Json Arguments::resolved(bool (*wanted)(FlagScope)) const {
  Json::Object object;
  for (const auto& [name, value] : positionals_) object.emplace_back(name, as_text(value));
  const Json values = OptionValues::resolved(wanted);
  object.insert(object.end(), values.object().begin(), values.object().end());
  return object;
}

}  // namespace tandem
