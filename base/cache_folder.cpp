#include "base/cache_folder.h"

#include <cstdlib>

namespace tandem {

std::filesystem::path cache_folder() {
  if (const char* folder = std::getenv("TANDEM_CACHE")) return folder;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return std::filesystem::path(cache) / "tandem";
  if (const char* home = std::getenv("HOME"); home && *home) return std::filesystem::path(home) / ".cache" / "tandem";
  return {};
}

std::string kernel_times_file(bool to_write) {
  const std::filesystem::path folder = cache_folder();
  std::error_code error;
  if (folder.empty() || (to_write && (std::filesystem::create_directories(folder, error), error))) return "";
  return folder / "kernels.cache";
}

}  // namespace tandem
