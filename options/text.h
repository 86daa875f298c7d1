// Options as texts and as JSON.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "options/flag.h"

namespace tandem {

using FlagRows = std::span<const FlagRow* const>;

const FlagRow* find_row(FlagRows rows, std::string_view name);  // null: there is none

// Fails (usage): unknown WHAT 'name', with `before` and the nearest name, or with `otherwise` where none is near.
[[noreturn]] void unknown_option(std::string_view what, std::string_view name, FlagRows rows, std::string_view before,
                                 std::string_view otherwise);

std::string switch_text(std::string_view text, const FlagRow& row);  // on or off; fails (usage) on other words

// A value of a configuration as text: paths may be of any bytes (base/printable.h). Fails (usage) where it holds a zero.
std::string text_of_json(const Json& value);
Json json_of_text(const std::string& text);  // a number where the text is what that number is written as
// A value as the option's text. Parts of a list and members of an object (NAME=VALUE) stand with the row's separator between them.
std::string option_text(const FlagRow& row, const Json& value);

// A configuration may say where values lie in a section: "placement": {"parallel": {"data": 2}, "place": {"fc*": "cpu:1"}}. Its options
// stand in place of it, those that are among `rows`. Fails (usage) on others, naming `where` and the nearest, or with `otherwise`.
Json::Object with_placement(const Json::Object& config, std::string_view where, FlagRows rows, std::string_view otherwise);

}  // namespace tandem
