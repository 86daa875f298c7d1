// One option is one row: its name, placeholder, default and help, how its text becomes a value, and whom it
// concerns. A row is an object of its value's type, a member of its group, and the key by which the value is read:
//
//   struct DeviceFlags : FlagGroup {
//     constexpr DeviceFlags() : FlagGroup("devices, batch and kernels") {}
//     Flag<std::int64_t> batch_size{*this, "batch-size", "N", "32", "samples of a batch", whole<1>, {.field = "batch"}};
//   };
//   inline constexpr DeviceFlags device_flags;
//   ...
//   options.batch = arguments[device_flags.batch_size];
//
// The command line, its help and completion, the environment, config.json, Options (options/options.h) and the library's messages all
// read these rows.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/spec.h"

namespace tandem {

// Whom an option concerns.
enum class FlagScope {
  run,      // what is computed: config.json keeps it, other commands take it from there, all ranks must have it alike
  command,  // as `run`, but other commands have their own
  rank,     // as `run`, but each rank may have its own
  place,    // where this call writes and how it speaks: config.json keeps it, and it is nobody else's
  call,     // this call alone: config.json does not keep it
};
constexpr bool is_kept(FlagScope scope) { return scope != FlagScope::call; }
constexpr bool serves_other_commands(FlagScope scope) { return scope == FlagScope::run || scope == FlagScope::rank; }
constexpr bool is_alike_on_ranks(FlagScope scope) { return scope == FlagScope::run || scope == FlagScope::command; }

class FlagGroup;
struct FlagRow;

// What few rows say.
struct FlagTraits {
  FlagScope scope = FlagScope::run;
  std::string_view field = "";                      // of the API that it sets, where that is not its name with _ for -
  bool paths = false;                               // its text may hold paths
  char separator = ',';                             // of its parts, where a list or an object stands for its text
  std::string (*names)(const FlagRow&) = nullptr;   // what stands for {} in the help
};

struct FlagRow {
  using Check = void (*)(const FlagRow& row, const std::string& text);
  constexpr FlagRow(FlagGroup& group, std::string_view name, std::string_view value, std::string_view absent, std::string_view text,
                    std::string_view type, Check check, const FlagTraits& traits);
  FlagRow(const FlagRow&) = delete;

  std::string_view name;
  std::string_view value;   // placeholder; empty: a switch, --name and --no-name
  std::string_view absent;  // default; of a switch "on" or "off"
  std::string_view text;    // of the help
  std::string_view type;    // of the value: switch, integer, number, text, list
  Check check;              // fails (usage) where the text is no value
  FlagTraits traits;

  bool is_switch() const { return value.empty(); }
  bool is_on_by_default() const { return is_switch() && absent == "on"; }
  std::string help() const;
  std::string flag() const;      // --name
  std::string told() const;      // in messages: --name, or "option name" while a KeysInMessages lives
  std::string field() const;     // as option() names it
  std::string variable() const;  // of the environment: TANDEM_NAME
};

// While it lives this thread's messages name options as keys ("option batch_size"), for whoever calls the library, and not as flags.
class KeysInMessages {
 public:
  KeysInMessages();
  ~KeysInMessages();
  KeysInMessages(const KeysInMessages&) = delete;
  KeysInMessages& operator=(const KeysInMessages&) = delete;
};

// Rows of one theme, in the help's order. Without a title they stand under that of the group before.
class FlagGroup {
 public:
  enum Default : bool { off, on };  // of switches
  constexpr explicit FlagGroup(std::string_view title = "") : title_(title) {}
  FlagGroup(const FlagGroup&) = delete;
  constexpr std::string_view title() const { return title_; }
  constexpr std::span<const FlagRow* const> rows() const { return {rows_.data(), count_}; }

 private:
  friend struct FlagRow;
  std::string_view title_;
  std::array<const FlagRow*, 24> rows_{};  // a group that has more does not compile
  std::size_t count_ = 0;
};

constexpr FlagRow::FlagRow(FlagGroup& group, std::string_view n, std::string_view v, std::string_view a, std::string_view t,
                           std::string_view kind, Check how, const FlagTraits& more)
    : name(n), value(v), absent(a), text(t), type(kind), check(how), traits(more) {
  group.rows_[group.count_++] = this;
}

// How a text becomes a value; each fails (usage), naming the flag.
std::int64_t read_whole(const FlagRow& row, const std::string& text, std::int64_t least, std::int64_t most);
double read_number(const FlagRow& row, const std::string& text, double least, bool or_least);
[[noreturn]] void refuse_word(const FlagRow& row, const std::string& text, std::span<const std::string_view> words);

// As the type has it: numbers are finite, whole ones not negative, lists separated by commas; of an optional no text is no value.
template <class T>
T read_flag(const FlagRow& row, const std::string& text) {
  if constexpr (std::is_same_v<T, bool>)
    return text == "on";
  else if constexpr (std::is_same_v<T, double>)
    return parse_number(text, row.told());
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return read_whole(row, text, 0, std::numeric_limits<std::int64_t>::max());
  else if constexpr (std::is_same_v<T, std::string>)
    return text;
  else if constexpr (std::is_same_v<T, std::vector<std::string>>)
    return split(text, ',');
  else
    return text.empty() ? T() : T(read_flag<typename T::value_type>(row, text));
}

// A whole number in a range.
template <std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max()>
std::int64_t whole(const FlagRow& row, const std::string& text) {
  return read_whole(row, text, least, most);
}
// Any whole number, or nothing.
inline std::optional<std::int64_t> any_whole(const FlagRow& row, const std::string& text) {
  if (text.empty()) return std::nullopt;
  return read_whole(row, text, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
}
inline double not_negative(const FlagRow& row, const std::string& text) { return read_number(row, text, 0, true); }
inline double positive(const FlagRow& row, const std::string& text) { return read_number(row, text, 0, false); }

// One of a table's words: `inline constexpr FlagWord<Keep> keeps[] = {{"last", Keep::last}, {"best", Keep::best}};`
template <class T>
struct FlagWord {
  std::string_view word;
  T value;
};
template <const auto& table>
auto one_of(const FlagRow& row, const std::string& text) {
  std::vector<std::string_view> words;
  for (const auto& [word, value] : table) {
    if (word == text) return value;
    words.push_back(word);
  }
  refuse_word(row, text, words);
}

template <class T>
constexpr std::string_view type_word() {
  if constexpr (std::is_same_v<T, bool>)
    return "switch";
  else if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, std::optional<std::int64_t>>)
    return "integer";
  else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::optional<double>>)
    return "number";
  else if constexpr (std::is_same_v<T, std::vector<std::string>>)
    return "list";
  else
    return "text";
}

template <class T>
struct Flag : FlagRow {
  using Read = T (*)(const FlagRow&, const std::string&);
  constexpr Flag(FlagGroup& group, std::string_view name, std::string_view value, std::string_view absent, std::string_view text, Read how,
                 const FlagTraits& more = {})
      : FlagRow(group, name, value, absent, text, type_word<T>(),
                [](const FlagRow& row, const std::string& given) {
                  const auto& self = static_cast<const Flag&>(row);
                  static_cast<void>(self.read(self, given));
                },
                more),
        read(how) {}
  constexpr Flag(FlagGroup& group, std::string_view name, std::string_view value, std::string_view absent, std::string_view text,
                 const FlagTraits& more = {})
      : Flag(group, name, value, absent, text, read_flag<T>, more) {}
  Read read;
};

// --name and --no-name.
struct Switch : Flag<bool> {
  constexpr Switch(FlagGroup& group, std::string_view name, FlagGroup::Default absent, std::string_view text, const FlagTraits& more = {})
      : Flag<bool>(group, name, "", absent == FlagGroup::on ? "on" : "off", text, more) {}
};

// What stands on the command line by its place.
struct Positional {
  std::string_view name;
};
inline constexpr Positional model_file{"model"};

}  // namespace tandem
