#include "data/library_versions.h"

#ifdef TANDEM_SNAPPY
#include <snappy.h>
#endif
#ifdef TANDEM_ZSTD
#include <zstd.h>
#endif

#include "base/error.h"

namespace tandem {

std::vector<LibraryVersion> data_libraries() {
  std::vector<LibraryVersion> list;
#ifdef TANDEM_JPEG
  list.push_back(jpeg_library());
#endif
#ifdef TANDEM_PNG
  list.push_back(png_library());
#endif
#ifdef TANDEM_WEBP
  list.push_back(webp_library());
#endif
#ifdef TANDEM_SNAPPY
  list.push_back({"snappy", concat(SNAPPY_MAJOR, '.', SNAPPY_MINOR, '.', SNAPPY_PATCHLEVEL)});
#endif
#ifdef TANDEM_ZSTD
  list.push_back({"zstd", ZSTD_versionString()});
#endif
  return list;
}

}  // namespace tandem
