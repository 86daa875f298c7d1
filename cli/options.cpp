#include "cli/options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/printable.h"
#include "base/spec.h"

namespace tandem {
namespace {

bool is_switch(const OptionRow& row) {
  return row.value.empty();
}

std::string switch_text(std::string_view text, std::string_view option) {
  for (const std::string_view yes : {"on", "true", "1", "yes"})
    if (text == yes) return "on";
  for (const std::string_view no : {"off", "false", "0", "no", ""})
    if (text == no) return "off";
  fail(ExitCode::usage, "--", option, " is a switch: expected on or off, got '", text, "'");
}

std::string variable_of(std::string_view option) {
  std::string name = "TANDEM_";
  for (const char c : option) name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

const OptionRow* find_row(std::span<const OptionRow> rows, std::string_view name) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const OptionRow& r) { return r.name == name; });
  return row == rows.end() ? nullptr : &*row;
}

// `prefix`: what stands before an option's name where it was given.
[[noreturn]] void unknown(std::string_view what, std::string_view name, std::span<const OptionRow> rows, std::string_view prefix) {
  std::vector<std::string> names;
  for (const OptionRow& row : rows) names.emplace_back(row.name);
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

}  // namespace

namespace {

// What a run's file says of paths, seen from the folder in which it is read: relative paths are those of the folder in which the run was started.
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

}  // namespace

Arguments Arguments::parse(std::span<const std::string> given, std::span<const std::string_view> positionals,
                           std::span<const OptionRow> rows, const Environment& environment, const ConfigRules& rules) {
  Arguments a;
  std::vector<std::string> bare;
  bool options_end = false;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string& word = given[i];
    if (options_end || !word.starts_with('-') || word == "-") {
      bare.push_back(word);
      continue;
    }
    if (word == "--") {
      options_end = true;
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string name = word == "-h" ? "help"
                                          : word.substr(word.starts_with("--") ? 2 : 1,
                                                        equals == std::string::npos ? equals : equals - (word.starts_with("--") ? 2 : 1));
    const OptionRow* row = word.starts_with("--") || word == "-h" ? find_row(rows, name) : nullptr;
    if (row && is_switch(*row)) {
      a.values_[name] = {equals == std::string::npos ? "on" : switch_text(word.substr(equals + 1), name), true};
    } else if (row) {
      if (equals == std::string::npos && i + 1 == given.size()) fail(ExitCode::usage, "--", name, " needs a value: ", row->value);
      a.values_[name] = {equals == std::string::npos ? given[++i] : word.substr(equals + 1), true};
    } else if (const OptionRow* off = name.starts_with("no-") ? find_row(rows, name.substr(3)) : nullptr;
               off && is_switch(*off) && equals == std::string::npos) {
      a.values_[name.substr(3)] = {"off", true};
    } else {
      unknown("option", word.substr(0, equals), rows, "--");
    }
  }
  const bool any_number = !positionals.empty() && positionals.back().ends_with("...");
  const std::size_t named = positionals.size() - any_number;
  if (bare.size() > named && !any_number) fail(ExitCode::usage, "unexpected argument '", bare[named], "'");
  for (std::size_t i = 0; i < std::min(named, bare.size()); ++i) a.positionals_.emplace(positionals[i], bare[i]);
  if (bare.size() > named) a.rest_.assign(bare.begin() + static_cast<std::ptrdiff_t>(named), bare.end());

  for (const OptionRow& row : rows) {
    const char* value = a.values_.contains(row.name) ? nullptr : environment(variable_of(row.name));
    if (value) a.values_.emplace(row.name, Value{is_switch(row) ? switch_text(value, row.name) : std::string(value), true});
  }
  if (const std::string path = a.config_file(); !path.empty()) a.read_config_file(path, positionals, rows, rules);
  for (const OptionRow& row : rows) a.values_.emplace(row.name, Value{std::string(row.absent), false});
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
  const std::string output = text("output"), how = text("lora-export");
  const bool adapted = !text("lora").empty() || !text("adapter").empty();
  if (!adapted || how.empty() || how.find("merged") != std::string::npos) return {output, ""};
  return {how.find("inputs") == std::string::npos ? text("model") : output, path_beside(output, adapter_extension).string()};
}

}  // namespace

void Arguments::read_config_file(const std::string& path, std::span<const std::string_view> positionals, std::span<const OptionRow> rows,
                                 const ConfigRules& rules) {
  // Of another command's call: where it wrote and how it spoke.
  constexpr std::string_view of_files[] = {"adapter", "class-weights", "data", "loss", "metric", "teacher", "tuning-cache"};  // that are read
  constexpr std::string_view of_its_call[] = {"output", "also-training-graph", "autotune", "json", "quiet"};
  const Json::Object config = read_config(path);
  const auto is = [](const auto& list, std::string_view key) { return std::find(std::begin(list), std::end(list), key) != std::end(list); };
  const bool another = std::any_of(config.begin(), config.end(), [&](const auto& pair) { return pair.first == "command" && text_of_json(pair.second) != rules.command; });
  const bool trained = another && rules.uses_trained;
  const auto started = std::find_if(config.begin(), config.end(), [](const auto& pair) { return pair.first == run_folder_key; });
  const std::string folder = started == config.end() ? "" : text_of_json(started->second);
  ConfigPaths paths(folder);
  if (trained) {
    TrainedFiles files = trained_files(config);
    files = {paths.found(files.model), paths.found(files.adapter)};
    if (!files.model.empty() && positionals_.emplace("model", files.model).second) {
      trained_ = files.adapter.empty() ? files.model : concat(files.model, " with ", files.adapter);
      if (!files.adapter.empty()) values_.emplace("adapter", Value{files.adapter, true});
    }
  }
  for (const auto& [key, value] : config) {
    if (key == "command" || key == run_folder_key || (trained && (key == "model" || key == "adapter"))) continue;
    if (another && is(of_its_call, key)) continue;
    if (is(positionals, key)) {
      positionals_.emplace(key, paths.found(text_of_json(value)));
      continue;
    }
    const OptionRow* row = find_row(rows, key);
    if (!row && is(rules.elsewhere, key)) continue;
    if (!row) unknown(concat("key in ", path), key, rows, "");
    const std::string text = text_of_json(value);
    values_.emplace(key, Value{is_switch(*row) ? switch_text(text, key) : is(of_files, key) ? paths.found(text) : text, true});
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
  const auto text = [&](std::string_view name) {
    const auto found = values_.find(name);
    return found == values_.end() ? std::string() : found->second.text;
  };
  if (const std::filesystem::path given = text("config"); std::filesystem::is_directory(given)) return (given / "config.json").string();  // a run's folder
  if (!text("config").empty() || text("resume") != "on" || text("run-dir").empty()) return text("config");
  const std::filesystem::path left = std::filesystem::path(text("run-dir")) / "config.json";
  return std::filesystem::exists(left) ? left.string() : "";
}

bool Arguments::given(std::string_view option) const {
  const auto found = values_.find(option);
  return found != values_.end() && found->second.given;
}

const std::string& Arguments::text(std::string_view option) const {
  const auto found = values_.find(option);
  if (found == values_.end()) fail(ExitCode::usage, "this command has no option --", option);
  return found->second.text;
}

double Arguments::number(std::string_view option) const {
  return parse_number(text(option), concat("--", option));
}

std::int64_t Arguments::integer(std::string_view option) const {
  const std::int64_t value = parse_integer(text(option), concat("--", option));
  if (value < 0) fail(ExitCode::usage, "--", option, ": ", value, " is negative");
  return value;
}

bool Arguments::on(std::string_view option) const {
  return text(option) == "on";
}
std::vector<std::string> Arguments::list(std::string_view option) const {
  return split(text(option), ',');
}

const std::string& Arguments::positional(std::string_view name) const {
  const auto found = positionals_.find(name);
  if (found == positionals_.end()) fail(ExitCode::usage, "missing argument ", name, ", see --help");
  return found->second;
}

void Arguments::set(std::string_view option, std::string text) { values_[std::string(option)] = {std::move(text), true}; }
void Arguments::choose(std::string_view option, std::string text) { values_[std::string(option)] = {std::move(text), false, true}; }

void Arguments::require(std::string_view option) const {
  if (text(option).empty()) fail(ExitCode::usage, "--", option, " is missing, see --help");
}

Json Arguments::resolved() const {
  static const std::set<std::string_view> of_one_call{"address", "config", "dry-run", "help",        "overwrite", "processes",
                                                      "rank",    "resume", "retune",  "secret-file", "verbose",   "world-size"};
  Json::Object object;
  for (const auto& [name, value] : positionals_) object.emplace_back(name, as_text(value));
  for (const auto& [name, value] : values_) {
    if (of_one_call.contains(name) || value.text.empty() || value.chosen) continue;
    object.emplace_back(name, json_of_text(value.text));
  }
  return object;
}

}  // namespace tandem
