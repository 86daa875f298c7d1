// The external files of an exported model: copies of the template's, with the new weights in their places.
#pragma once
#include <filesystem>
#include <vector>

#include "importer/atomic_file.h"
#include "importer/external_data.h"

namespace tandem {

struct ExternalPatch {
  ExternalRegion region;
  Tensor tensor;
};

// Every external file that `model` names, copied beside `output` under the same location and patched; not committed
// yet. A location that would overwrite the template's own file, although `output` is another model, gets a name of its
// own, and `model` is changed accordingly.
std::vector<AtomicFile> export_external(const ExternalData& external, const std::filesystem::path& source,
                                        const std::filesystem::path& output, const std::vector<ExternalPatch>& patches,
                                        onnx::ModelProto& model);

}  // namespace tandem
