// What took long to make and is kept on disk for the next process: compiled kernels, and plans of cuDNN's: in
// cache_folder() (base/cache_folder.h).
#pragma once
#include <optional>
#include <string>

namespace tandem::cuda {

// What was kept under this name; nothing where there is no such file, or it is damaged.
std::optional<std::string> read_kept(const std::string& name);
// A cache that cannot be written is no error.
void keep(const std::string& name, const std::string& bytes);

}  // namespace tandem::cuda
