// Tensors by name as a safetensors file, which Python's safetensors reads and writes: the header's length (uint64), the header as JSON,
// the tensors without a gap.
#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_descriptor.h"
#include "base/json.h"
#include "runtime/session.h"

namespace tandem {

// Hands over tensors one by one, the same ones whenever it is asked.
using EachTensor = std::function<void(const Session::Visit&)>;

inline constexpr std::string_view optimizer_state_prefix = "tandem.optimizer/";  // of names in a file that holds weights, too
inline constexpr std::int64_t largest_safetensors_header = 100'000'000;  // that Python's reader takes

std::string_view safetensors_word(DType dtype);      // "F32"; empty: the format has no such type
TensorType safetensors_type(const Json& entry);      // of a tensor of the header. Fails on an unknown type or a shape that is none
Json safetensors_entry(const TensorType& type, std::int64_t begin);  // the other way: its values begin there behind the header

std::string safetensors_header(Json header);  // as a file begins: its length and text, padded so that the values stand at a multiple of 8

// Replaces the file at once: a failure (io) leaves the earlier one whole. The source is asked twice. Names that are no UTF-8 are as_text.
void write_safetensors(const std::filesystem::path& path, const std::map<std::string, std::string>& metadata, const EachTensor& tensors);

// A file that stays open; its values are read one by one.
class SafetensorsFile {
 public:
  // Fails (io) where it cannot be read, (data) where it is no whole file of safetensors.
  explicit SafetensorsFile(const std::filesystem::path& path);
  struct Entry {
    TensorType type;
    std::int64_t at = 0;  // in the file
  };
  const std::map<std::string, Entry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  Tensor read(const std::string& name) const;  // fails (data) where there is none of that name

 private:
  void read_header(const std::string& text, std::int64_t data);
  std::string path_;
  RegularFile file_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace tandem
