#include "cli/options.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/file.h"
#include "base/printable.h"
#include "base/spec.h"
#include "cli/common_flags.h"
#include "cli/device_flags.h"
#include "cli/train_flags.h"
#include "cli/weight_flags.h"

namespace tandem {
namespace {

std::string switch_text(std::string_view text, const FlagRow& row) {
  for (const std::string_view yes : {"on", "true", "1", "yes"})
    if (text == yes) return "on";
  for (const std::string_view no : {"off", "false", "0", "no", ""})
    if (text == no) return "off";
  fail(ExitCode::usage, row.flag(), " is a switch: expected on or off, got '", text, "'");
}

using Rows = std::span<const FlagRow* const>;

const FlagRow* find_row(Rows rows, std::string_view name) {
  const auto row = std::ranges::find(rows, name, &FlagRow::name);
  return row == rows.end() ? nullptr : *row;
}

// `prefix`: what stands before an option's name where it was given.
[[noreturn]] void unknown(std::string_view what, std::string_view name, Rows rows, std::string_view prefix) {
  std::vector<std::string> names;
  for (const FlagRow* row : rows) names.emplace_back(row->name);
  const std::string near = nearest(name.substr(std::min(name.find_first_not_of('-'), name.size())), names);
  fail(ExitCode::usage, "unknown ", what, " '", name, "'",
       near.empty() ? std::string(", see --help") : concat(", did you mean ", prefix, near, "?"));
}

// An option's text as a configuration holds it: paths may be of any bytes (`as_text`), but for zeros, which would end them.
std::string text_of_json(const Json& value) {
  const std::string dumped = value.dump();
  std::string text = dumped.starts_with('"') ? from_text(value.text()) : dumped;
  if (text.find('\0') != std::string::npos) fail(ExitCode::usage, "JSON: '", text, "' holds a zero, which no path and no option may");
  return text;
}

Json json_of_text(const std::string& text) {
  std::int64_t whole = 0;
  double real = 0;
  const char *begin = text.data(), *end = begin + text.size();
  if (std::from_chars(begin, end, whole).ptr == end && !text.empty()) return whole;
  if (std::from_chars(begin, end, real).ptr == end && !text.empty() && text_of(real) == text) return real;
  return as_text(text);
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
Words read_words(std::span<const std::string> given, Rows rows) {
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

Arguments Arguments::parse(std::span<const std::string> given, std::span<const Positional> positionals, Rows rows,
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

// Where values lie, in a section of its own: "placement": {"parallel": {"data": 2}, "place": {"fc*": "cpu:1"}, "split": ["w=tensor:0"]}.
// Objects and lists are the rules of an option.
constexpr std::string_view placement_section = "placement";
struct SectionRow {
  const FlagRow& option;
  char separator;  // of its rules
};
const SectionRow section_rows[] = {
    {device_flags.parallel, ','},      {device_flags.micro_batches, ','}, {device_flags.schedule, ','},    {device_flags.stage, ';'},
    {device_flags.place, ';'}, {placement_flags.split, ','},       {device_flags.configuration, ','}};

std::string text_of_rules(const Json& value, char separator) {
  std::string text;
  const auto add = [&](const std::string& rule) { text += concat(text.empty() ? "" : std::string(1, separator), rule); };
  if (value.is_object())
    for (const auto& [name, where] : value.object()) add(concat(name, '=', text_of_json(where)));
  else if (value.is_array())
    for (const Json& rule : value.array()) add(text_of_json(rule));
  else
    return text_of_json(value);
  return text;
}

// The section's options in place of it, as far as the command has them.
Json::Object with_placement(const Json::Object& config, const std::string& path, Rows rows) {
  Json::Object flat;
  for (const auto& [key, value] : config) {
    if (key != placement_section) {
      flat.emplace_back(key, value);
      continue;
    }
    for (const auto& [name, rules] : value.object()) {
      const auto row = std::ranges::find(section_rows, name, [](const SectionRow& r) { return r.option.name; });
      std::vector<const FlagRow*> known;
      for (const SectionRow& r : section_rows) known.push_back(&r.option);
      if (row == std::end(section_rows)) unknown(concat("key in ", path, ", ", placement_section), name, known, "");
      if (std::ranges::find(rows, &row->option) != rows.end()) flat.emplace_back(name, as_text(text_of_rules(rules, row->separator)));
    }
  }
  return flat;
}

}  // namespace

void Arguments::read_config_file(const std::string& path, std::span<const Positional> positionals, Rows rows, const ConfigRules& rules) {
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
  for (const auto& [key, value] : with_placement(config, path, rows)) {
    if (key == "command" || key == run_folder_key || (trained && (key == model_file.name || key == adapter_flags.adapter.name))) continue;
    if (std::ranges::find(positionals, key, &Positional::name) != positionals.end()) {
      positionals_.emplace(key, paths.found(text_of_json(value)));
      continue;
    }
    const FlagRow* row = find_row(rows, key);
    if (!row && std::ranges::find(rules.elsewhere, key) != rules.elsewhere.end()) continue;
    if (!row) unknown(concat("key in ", path), key, rows, "");
    if (another && !serves_other_commands(row->traits.scope)) continue;
    const std::string text = text_of_json(value);
    values_.emplace(row->name, Value{row, row->is_switch() ? switch_text(text, *row) : row->traits.paths ? paths.found(text) : text, true});
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

bool Arguments::given(const FlagRow& flag) const {
  const auto found = values_.find(flag.name);
  return found != values_.end() && found->second.given;
}

std::vector<const FlagRow*> Arguments::given() const {
  std::vector<const FlagRow*> rows;
  for (const auto& [name, value] : values_)
    if (value.given) rows.push_back(value.row);
  return rows;
}

std::string Arguments::text(const FlagRow& flag) const {
  const auto found = values_.find(flag.name);
  if (found == values_.end()) return std::string(flag.absent);
  return found->second.meaning.empty() ? found->second.text : found->second.meaning;
}

void Arguments::mean(const FlagRow& flag, std::string text, std::string why) {
  Value& value = values_.emplace(flag.name, Value{&flag, std::string(flag.absent)}).first->second;
  value.meaning = std::move(text);
  value.why = std::move(why);
}

std::string Arguments::why(const FlagRow& flag) const {
  const auto found = values_.find(flag.name);
  return found == values_.end() ? "" : found->second.why;
}

const std::string& Arguments::operator[](Positional positional) const {
  const auto found = positionals_.find(positional.name);
  if (found == positionals_.end()) fail(ExitCode::usage, "missing argument ", positional.name, ", see --help");
  return found->second;
}

void Arguments::set(const FlagRow& flag, std::string text) { values_[flag.name] = {&flag, std::move(text), true}; }
void Arguments::choose(const FlagRow& flag, std::string text) { values_[flag.name] = {&flag, std::move(text), false, true}; }

void Arguments::require(const FlagRow& flag) const {
  if (text(flag).empty()) fail(ExitCode::usage, flag.flag(), " is missing, see --help");
}

Json Arguments::resolved(bool (*wanted)(FlagScope)) const {
  Json::Object object;
  for (const auto& [name, value] : positionals_) object.emplace_back(name, as_text(value));
  for (const auto& [name, value] : values_)
    if (wanted(value.row->traits.scope) && !value.text.empty() && !value.chosen) object.emplace_back(name, json_of_text(value.text));
  return object;
}

}  // namespace tandem
