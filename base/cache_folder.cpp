#include "base/cache_folder.h"

#include <cstdlib>

namespace tandem {

std::filesystem::path cache_folder() {
  if (const char* folder = std::getenv("TANDEM_CACHE")) return folder;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return std::filesystem::path(cache) / "tandem";
  if (const char* home = std::getenv("HOME"); home && *home) return std::filesystem::path(home) / ".cache" / "tandem";
  return {};
}

}  // namespace tandem
