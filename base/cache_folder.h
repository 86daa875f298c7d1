// Where programs keep what took long to make, for the next process.
#pragma once
#include <filesystem>
#include <string>

namespace tandem {

// $TANDEM_CACHE, else $XDG_CACHE_HOME/tandem or ~/.cache/tandem. Empty where nothing is to be kept: TANDEM_CACHE is empty, or there is
// no home.
std::filesystem::path cache_folder();
// The file of kernels' times there; empty where nothing is to be kept. `to_write`: the folder is made, empty where it cannot be.
std::string kernel_times_file(bool to_write);

}  // namespace tandem
