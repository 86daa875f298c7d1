// What reads and writes ONNX files.
#pragma once
#include "base/library_versions.h"

namespace tandem {

std::vector<LibraryVersion> importer_libraries();  // protobuf, and the versions of ONNX that are read

}  // namespace tandem
