#include "options/text.h"

#include <algorithm>
#include <charconv>

#include "base/printable.h"
#include "base/spec.h"
#include "options/device_flags.h"

namespace tandem {

const FlagRow* find_row(FlagRows rows, std::string_view name) {
  const auto row = std::ranges::find(rows, name, &FlagRow::name);
  return row == rows.end() ? nullptr : *row;
}

void unknown_option(std::string_view what, std::string_view name, FlagRows rows, std::string_view before, std::string_view otherwise) {
  const bool keys = !rows.empty() && rows.front()->told() != rows.front()->flag();  // a KeysInMessages lives
  const auto spelled = [&](std::string_view text) {
    std::string word(text.substr(std::min(text.find_first_not_of('-'), text.size())));
    if (keys) std::ranges::replace(word, '-', '_');
    return word;
  };
  std::vector<std::string> names;
  for (const FlagRow* row : rows) names.push_back(spelled(row->name));
  const std::string near = nearest(spelled(name), names);
  fail(ExitCode::usage, "unknown ", what, " '", name, "'",
       near.empty() ? std::string(otherwise) : concat(", did you mean ", before, near, "?"));
}

std::string switch_text(std::string_view text, const FlagRow& row) {
  for (const std::string_view yes : {"on", "true", "1", "yes"})
    if (text == yes) return "on";
  for (const std::string_view no : {"off", "false", "0", "no", ""})
    if (text == no) return "off";
  fail(ExitCode::usage, row.told(), " is a switch: expected on or off, got '", text, "'");
}

std::string text_of_json(const Json& value) {
  const std::string dumped = value.dump();
  std::string text = dumped.starts_with('"') ? from_text(value.text()) : dumped;
  if (text.find('\0') != std::string::npos) fail(ExitCode::usage, "JSON: '", text, "' holds a zero, which paths and options may not");
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

std::string option_text(const FlagRow& row, const Json& value) {
  std::string text;
  const auto add = [&](const std::string& part) { text += concat(text.empty() ? "" : std::string(1, row.traits.separator), part); };
  if (value.is_object())
    for (const auto& [name, part] : value.object()) add(concat(name, '=', text_of_json(part)));
  else if (value.is_array())
    for (const Json& part : value.array()) add(text_of_json(part));
  else
    text = text_of_json(value);
  return row.is_switch() ? switch_text(text, row) : text;
}

Json::Object with_placement(const Json::Object& config, std::string_view where, FlagRows rows, std::string_view otherwise) {
  static constexpr std::string_view section = "placement";
  static constexpr const FlagRow* known[] = {&device_flags.parallel,     &device_flags.micro_batches, &device_flags.schedule,
                                             &device_flags.stage,        &device_flags.place,         &placement_flags.split,
                                             &device_flags.configuration};
  Json::Object flat;
  for (const auto& [key, value] : config) {
    if (key != section) {
      flat.emplace_back(key, value);
      continue;
    }
    for (const auto& [name, rules] : value.object()) {
      const FlagRow* const row = find_row(known, name);
      if (!row) unknown_option(concat("key in ", where, section), name, known, "", otherwise);
      if (std::ranges::find(rows, row) != rows.end()) flat.emplace_back(name, as_text(option_text(*row, rules)));
    }
  }
  return flat;
}

}  // namespace tandem
