// The library's messages name options as its API does ("option loss_on"). Who uses the program knows them by their flags.
#pragma once
#include <span>
#include <string_view>

namespace tandem {

struct FlagName {
  std::string_view option;  // of the API: a field of CompileOptions, ModelOptions, WeightOptions, SaveOptions or FitOptions
  std::string_view flag;
};
std::span<const FlagName> flag_names();

// The program's word for an option of the API, or for a function of it (base/option.h); empty: it has none.
std::string_view program_word(std::string_view name);

}  // namespace tandem
