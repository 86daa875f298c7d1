// Options that all commands have.
#pragma once
#include "options/flag.h"

namespace tandem {

struct CommonFlags : FlagGroup {
  constexpr CommonFlags() : FlagGroup("general") {}
  Flag<std::string> config{*this, "config", "FILE", "", "read options from a JSON file, such as a run's config.json, or from a run's folder", {.scope = FlagScope::call}};
  Switch json{*this, "json", off, "write machine-readable results to stdout", {.scope = FlagScope::place}};
  Switch quiet{*this, "quiet", off, "write no messages, only results and errors", {.scope = FlagScope::place}};
  Switch help{*this, "help", off, "show this help; --help GROUP and --help OPTION explain some options, --help all every one", {.scope = FlagScope::call}};
};
inline constexpr CommonFlags common_flags;

}  // namespace tandem
