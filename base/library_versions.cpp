#include "base/library_versions.h"

#include <fmt/core.h>
#include <zlib.h>

#include "base/error.h"

namespace tandem {

std::vector<LibraryVersion> base_libraries() {
  return {
      {"fmt", concat(FMT_VERSION / 10000, '.', FMT_VERSION / 100 % 100, '.', FMT_VERSION % 100)}, {"zlib", zlibVersion()}, json_library()};
}

}  // namespace tandem
