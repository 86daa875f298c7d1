// The library's messages name options as its API does ("option loss_on"). Who uses the program knows them by their flags.
#pragma once
#include <string>
#include <string_view>

#include "cli/command.h"

namespace tandem {

// The flag by which a command sets a field of the API ("loss_on": "--loss-on"); empty: it has none.
std::string flag_of(const Command& command, std::string_view field);

// The program's word for a field of the API, or for a function of it (base/option.h); empty: it has none.
std::string program_word(std::string_view name);

}  // namespace tandem
