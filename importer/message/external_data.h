// Tensors kept in files beside the model. A path must stay in the model's folder: no absolute path, no "..", no
// symbolic link that leads out; the file must be a regular one with no second hard link; a tensor must lie within it.
// Source: ONNX, docs/ExternalData.md.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "graph/tensor.h"
#include "importer/message/onnx_messages.h"

namespace tandem {

struct ExternalRegion {
  std::string location;
  std::int64_t offset = 0;
  std::int64_t length = -1;  // absent: what the type takes
};
// Fails for unknown or repeated keys, numbers that are none, and paths that are not plain relative ones.
ExternalRegion external_region(const onnx::TensorProto& proto);
// What is said of a region that a file of `size` bytes has not, whoever finds it.
std::string outside(const std::string& location, std::int64_t offset, std::int64_t bytes, std::int64_t size);

class ExternalData {
 public:
  ExternalData() = default;  // none allowed
  // The folders a model's data may lie in: the one it was named by, and the one its own file lies in once symbolic
  // links are resolved.
  explicit ExternalData(const std::filesystem::path& model);
  static ExternalData beside(const std::filesystem::path& folder);

  Tensor read(const onnx::TensorProto& proto, const TensorType& type);
  std::int64_t bytes_read() const { return bytes_read_; }
  std::filesystem::path resolve(const std::string& location) const;  // fails where it is not allowed

 private:
  struct File {
    FileDescriptor descriptor;
    std::int64_t size = 0;
    std::map<std::int64_t, Tensor> regions;  // by offset: equal regions are shared, others may not overlap
  };
  File& open(const std::string& location);

  std::filesystem::path folder_;                // the model's, as it was named, resolved
  std::vector<std::filesystem::path> allowed_;  // resolved
  std::map<std::string, File> files_;           // by resolved path
  std::int64_t bytes_read_ = 0, shared_bytes_ = 0;
};

}  // namespace tandem
