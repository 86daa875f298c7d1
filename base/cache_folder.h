// Where programs keep what took long to make, for the next process.
#pragma once
#include <filesystem>

namespace tandem {

// $TANDEM_CACHE, else $XDG_CACHE_HOME/tandem or ~/.cache/tandem. Empty where nothing is to be kept: TANDEM_CACHE is empty, or there is
// no home.
std::filesystem::path cache_folder();

}  // namespace tandem
