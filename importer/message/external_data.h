// Tensors kept in files beside the model. A path must stay in the model's folder: no absolute path, no "..", no
// symbolic link that leads out; the file must be a regular one with no second hard link; a tensor must lie within it.
// Source: ONNX, docs/ExternalData.md.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/input_file.h"
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

// Locations of values that lie in the model's own file, as raw_data or in the list of their type (importer/message/skeleton.h). No file can
// say them: a path has no NUL.
inline constexpr std::string_view own_raw{"\0raw", 4}, own_typed{"\0typed", 6};
// Whether the values lie so, and where; null: they do not.
const std::string* own_location(const onnx::TensorProto& proto);

// Values of so many bytes stay in their file until they are asked for.
inline constexpr std::int64_t least_streamed = std::int64_t{64} << 10;

class ExternalData {
 public:
  ExternalData() = default;  // none allowed
  // The folders a model's data may lie in: the one it was named by, and the one its own file lies in once symbolic
  // links are resolved.
  explicit ExternalData(const std::filesystem::path& model);
  static ExternalData beside(const std::filesystem::path& folder);

  // `offsets`: where values lie that were left out of the model's message.
  void set_own(std::shared_ptr<const InputFile> file, std::set<std::int64_t> offsets);

  // Of large values a tensor that reads them from the file when they are asked for. Then it fails (model) where the file has changed.
  Tensor read(const onnx::TensorProto& proto, const TensorType& type);
  void release() const;          // large values leave the memory
  void check_unchanged() const;  // fails (model) where a file has changed since its values were read
  // of files beside the model's
  std::int64_t bytes_read() const { return bytes_read_; }
  std::filesystem::path resolve(const std::string& location) const;  // fails where it is not allowed

 private:
  struct File {
    std::shared_ptr<const InputFile> file;
    std::map<std::int64_t, Tensor> regions;  // by offset: equal regions are shared, others may not overlap
  };
  File& open(const ExternalRegion& region);
  File open_beside(const std::string& location, const std::filesystem::path& path) const;

  std::filesystem::path folder_;                // the model's, as it was named, resolved
  std::vector<std::filesystem::path> allowed_;  // resolved
  std::map<std::string, File> files_;           // by resolved path, the model's own by own_raw
  std::set<std::int64_t> own_offsets_;
  std::int64_t bytes_read_ = 0, own_bytes_ = 0, shared_bytes_ = 0;
};

}  // namespace tandem
