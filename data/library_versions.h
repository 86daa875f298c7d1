// The libraries that formats of data are read with: those that this tandem was built with.
#pragma once
#include "base/library_versions.h"

namespace tandem {

std::vector<LibraryVersion> data_libraries();
// Each beside its decoder.
LibraryVersion jpeg_library();
LibraryVersion png_library();
LibraryVersion webp_library();

}  // namespace tandem
