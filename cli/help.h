// --help, man pages and shell completion, all from the commands' tables.
#pragma once
#include <string>

#include "cli/command.h"

namespace tandem {

// Lines of at most `columns` characters.
std::string overview(std::size_t columns);
// A command's page. `topic`: "": the command's first options in full, and of the others, where there are many, groups and names;
// "all": every option in full; a word of a group's title, or an option's name: these. Fails (usage) on another topic.
std::string help_of(const Command& command, std::size_t columns, std::string_view topic = "");

// In roff; null: of the program itself.
std::string man_page(const Command* command);

// For bash, zsh or fish; fails (usage) on another.
std::string completion_of(const std::string& shell);

}  // namespace tandem
