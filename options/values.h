// Values of options by their rows (options/flag.h), whoever gave them: the command line with its environment and files (cli/options.h),
// or Options (options/options.h).
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "options/flag.h"

namespace tandem {

class OptionValues {
 public:
  // The value; of an option that nobody gave, its default. Fails (usage) where the text is none.
  template <class T>
  T operator[](const Flag<T>& flag) const {
    return flag.read(flag, text(flag));
  }
  bool given(const FlagRow& flag) const;
  std::vector<const FlagRow*> given() const;           // all that are
  std::string text(const FlagRow& flag) const;         // as it was given, or the default
  void set(const FlagRow& flag, std::string text);     // as if given so
  void choose(const FlagRow& flag, std::string text);  // what the program chose: resolved() leaves it out
  // What the option's text, or its absence, stands for here, and why: values are read of it, resolved() keeps what was said.
  void mean(const FlagRow& flag, std::string text, std::string why);
  std::string why(const FlagRow& flag) const;  // of what was meant; empty: it says all itself
  void unset(const FlagRow& flag) { values_.erase(flag.name); }

  // The options of some scopes, by name: what a configuration holds.
  Json resolved(bool (*wanted)(FlagScope) = is_kept) const;

 protected:
  struct Value {
    const FlagRow* row;
    std::string text;
    bool given = false, chosen = false;
    std::string meaning = "", why = "";
  };
  std::map<std::string_view, Value> values_;  // by the rows' names, which outlive this
};

}  // namespace tandem
