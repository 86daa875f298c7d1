#include "options/flag.h"

#include <algorithm>
#include <cctype>

namespace tandem {
namespace {

std::string replaced(std::string text, char what, char by) {
  std::replace(text.begin(), text.end(), what, by);
  return text;
}

// "a, b or c"; what is empty is not named.
std::string alternatives(std::span<const std::string> words) {
  std::string list;
  for (std::size_t i = 0; i < words.size(); ++i) list += concat(i == 0 ? "" : i + 1 == words.size() ? " or " : ", ", words[i]);
  return list;
}

thread_local int keys_in_messages = 0;

}  // namespace

KeysInMessages::KeysInMessages() { ++keys_in_messages; }
KeysInMessages::~KeysInMessages() { --keys_in_messages; }

std::string FlagRow::help() const {
  const std::size_t at = text.find("{}");
  return traits.names && at != std::string_view::npos ? concat(text.substr(0, at), traits.names(*this), text.substr(at + 2))
                                                      : std::string(text);
}
std::string FlagRow::flag() const { return concat("--", name); }
std::string FlagRow::told() const { return keys_in_messages > 0 ? concat("option ", replaced(std::string(name), '-', '_')) : flag(); }
std::string FlagRow::field() const { return traits.field.empty() ? replaced(std::string(name), '-', '_') : std::string(traits.field); }
std::string FlagRow::variable() const {
  std::string variable = concat("TANDEM_", replaced(std::string(name), '-', '_'));
  for (char& c : variable) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

std::int64_t read_whole(const FlagRow& row, const std::string& text, std::int64_t least, std::int64_t most) {
  const std::int64_t value = parse_integer(text, row.told());
  if (value < least || value > most)
    fail(ExitCode::usage, row.told(), ' ', value, ": expected ",
         most == std::numeric_limits<std::int64_t>::max() ? concat("at least ", least) : concat(least, " to ", most));
  return value;
}

double read_number(const FlagRow& row, const std::string& text, double least, bool or_least) {
  const double value = parse_number(text, row.told());
  if (value < least || (value == least && !or_least))
    fail(ExitCode::usage, row.told(), ' ', text, ": expected ", or_least ? "at least " : "more than ", least);
  return value;
}

void refuse_word(const FlagRow& row, const std::string& text, std::span<const std::string_view> words) {
  std::vector<std::string> known;
  for (const std::string_view word : words)
    if (!word.empty()) known.emplace_back(word);
  const std::string near = nearest(text, known);
  fail(ExitCode::usage, row.told(), " '", text, "': expected ", alternatives(known),
       near.empty() ? "" : concat(", did you mean '", near, "'?"));
}

}  // namespace tandem
