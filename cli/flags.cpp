#include "cli/flags.h"

namespace tandem {

std::string flag_of(const Command& command, std::string_view field) {
  std::string by_rule;
  for (const FlagRow* row : rows_of(command)) {
    if (row->traits.field == field) return row->flag();
    if (by_rule.empty() && row->field() == field) by_rule = row->flag();
  }
  return by_rule;
}

std::string program_word(std::string_view name) {
  if (name == "ModelFile::tensors()") return "tandem summary --weights";  // a function there, here a command
  for (const Command& command : commands())
    if (std::string flag = flag_of(command, name); !flag.empty()) return flag;
  return "";
}

}  // namespace tandem
