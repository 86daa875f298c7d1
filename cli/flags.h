// The library's messages speak of options as the API names them: "option loss_on names another". Who uses the program knows
// them by their flags.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace tandem {

struct FlagName {
  std::string_view option;  // of the API: a field of CompileOptions, ModelOptions, WeightOptions, SaveOptions or FitOptions
  std::string_view flag;
};
std::span<const FlagName> flag_names();

// The text with flags in place of the options that it names: "--loss-on names another".
std::string in_flags(std::string_view text);

}  // namespace tandem
