#include "importer/library_versions.h"

#include <google/protobuf/stubs/common.h>

#include "base/error.h"
#include "importer/message/limits.h"

namespace tandem {

std::vector<LibraryVersion> importer_libraries() {
  return {{"protobuf", google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION)},
          {"ONNX",
           concat("IR ", limits::oldest_ir, " to ", limits::newest_ir, ", opset ", limits::oldest_opset, " to ", limits::newest_opset)}};
}

}  // namespace tandem
