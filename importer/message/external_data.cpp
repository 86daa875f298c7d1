// A path is judged as it is written, and again with its links resolved. Regions that were read are kept: equal ones are one
// tensor, and ones that overlap are refused, for they would let a small file ask for any amount of memory.
#include "importer/message/external_data.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "graph/file_values.h"
#include "importer/message/limits.h"
#include "importer/message/tensor_data.h"
#include "tandem_onnx.pb.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

std::int64_t number(const std::string& key, const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    fail("external data: ", key, " is '", text, "', expected a number of bytes");
  return value;
}

void check_location(const std::string& location) {
  const fs::path path(location);
  const bool bad = location.empty() || path.is_absolute() || location.find('\\') != std::string::npos ||
                   location.find('\0') != std::string::npos || !path.has_filename() ||
                   std::any_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
  if (bad) fail("external data: '", location.c_str(), "' is not a path within the model's folder");
}

bool is_own(std::string_view location) { return location == own_raw || location == own_typed; }

bool within(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

}  // namespace

const std::string* own_location(const onnx::TensorProto& proto) {
  if (proto.data_location() != onnx::TensorProto::EXTERNAL) return nullptr;
  for (const auto& entry : proto.external_data())
    if (entry.key() == "location" && is_own(entry.value())) return &entry.value();
  return nullptr;
}

ExternalRegion external_region(const onnx::TensorProto& proto) {
  ExternalRegion region;
  std::vector<std::string> seen;
  for (const auto& entry : proto.external_data()) {
    const std::string& key = entry.key();
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) fail("external data: key '", key, "' is given twice");
    seen.push_back(key);
    if (key == "location") {
      region.location = entry.value();
    } else if (key == "offset") {
      region.offset = number(key, entry.value());
    } else if (key == "length") {
      region.length = number(key, entry.value());
    } else if (key != "checksum") {
      fail("external data: unknown key '", key, "', expected location, offset, length or checksum");
    }
  }
  if (!is_own(region.location)) check_location(region.location);
  return region;
}

std::string outside(const std::string& location, std::int64_t offset, std::int64_t bytes, std::int64_t size) {
  return concat("external data '", location, "': bytes ", offset, " to ", offset, "+", bytes, " lie outside its ", size, " bytes");
}

ExternalData::ExternalData(const fs::path& model) {
  std::error_code error;
  const fs::path named = fs::canonical(fs::absolute(model).parent_path(), error);
  if (!error) {
    folder_ = named;
    allowed_.push_back(named);
  }
  const fs::path file = fs::canonical(model, error);
  if (!error) allowed_.push_back(file.parent_path());
}

ExternalData ExternalData::beside(const fs::path& folder) {
  ExternalData data;
  if (!folder.empty()) {
    data.folder_ = fs::canonical(folder);
    data.allowed_ = {data.folder_};
  }
  return data;
}

fs::path ExternalData::resolve(const std::string& location) const {
  if (folder_.empty()) fail("external data '", location, "': the model has no folder");
  std::error_code error;
  const fs::path path = fs::canonical(folder_ / location, error);
  if (error) fail("external data '", location, "': ", error.message());
  if (std::none_of(allowed_.begin(), allowed_.end(), [&](const fs::path& folder) { return within(path, folder); }))
    fail("external data '", location, "' leads out of the model's folder");
  return path;
}

ExternalData::File ExternalData::open_beside(const std::string& location, const fs::path& path) const {
  RegularFile file{FileDescriptor(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); }))};
  struct stat status {};
  if (file.descriptor.get() < 0 || ::fstat(file.descriptor.get(), &status) != 0)
    fail("external data '", location, "': ", std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail("external data '", location, "' is not a regular file");
  if (status.st_nlink > 1) fail("external data '", location, "' has ", status.st_nlink, " hard links: another file may be meant");
  file.size = status.st_size;
  return {std::make_shared<InputFile>(path, std::move(file), ExitCode::model), {}};
}

ExternalData::File& ExternalData::open(const ExternalRegion& region) {
  if (is_own(region.location)) {
    if (!own_offsets_.contains(region.offset)) check_location(region.location);  // refuses it
    return files_.at(std::string(own_raw));
  }
  const fs::path path = resolve(region.location);
  const auto known = files_.find(path.string());  // one file may have several spellings
  return known != files_.end() ? known->second : files_.emplace(path.string(), open_beside(region.location, path)).first->second;
}

void ExternalData::set_own(std::shared_ptr<const InputFile> file, std::set<std::int64_t> offsets) {
  files_[std::string(own_raw)].file = std::move(file);
  own_offsets_ = std::move(offsets);
}

void ExternalData::release() const {
  for (const auto& [path, file] : files_)
    for (const auto& [offset, tensor] : file.regions) tensor.release();
}

void ExternalData::check_unchanged() const {
  for (const auto& [path, file] : files_) file.file->check_unchanged();
}

Tensor ExternalData::read(const onnx::TensorProto& proto, const TensorType& type) {
  const ExternalRegion region = external_region(proto);
  const std::int64_t wanted = bytes_in_file(type);
  if (region.length >= 0 && region.length != wanted)
    fail("external data '", region.location, "': length is ", region.length, ", ", type, " takes ", wanted, " bytes");
  File& file = open(region);
  const std::int64_t size = file.file->size();
  if (region.offset > size || wanted > size - region.offset) fail(outside(region.location, region.offset, wanted, size));
  if (wanted == 0) return Tensor(type);
  // Regions that overlap would let a small file ask for any amount of memory.
  const auto same = file.regions.find(region.offset);
  if (same != file.regions.end() && same->second.type() == type) {
    shared_bytes_ += wanted;  // they take no memory here, but time wherever values are looked at, and memory once trained
    if (shared_bytes_ > limits::shared_bytes + limits::shared_factor * (bytes_read_ + own_bytes_))
      fail("external data '", region.location, "': more tensors share its bytes than the ", limits::shared_bytes, " bytes, and ",
           limits::shared_factor, " times the ", bytes_read_ + own_bytes_, " read, that are allowed");
    return same->second;
  }
  const auto next = file.regions.lower_bound(region.offset);
  const bool overlaps_next = next != file.regions.end() && next->first < region.offset + wanted;
  const bool overlaps_previous = next != file.regions.begin() &&
                                 std::prev(next)->first + bytes_in_file(std::prev(next)->second.type()) > region.offset;
  if (overlaps_next || overlaps_previous)
    fail("external data '", region.location, "': bytes from ", region.offset, " on belong to another tensor too");
  const FileValues values(file.file, region.offset);
  Tensor tensor;
  if (bits_of(type.dtype) < 8 || type.dtype == DType::boolean) {
    std::string bytes(static_cast<std::size_t>(wanted), '\0');
    values.read(std::as_writable_bytes(std::span(bytes)), 0);
    tensor = unpacked(type, bytes);
  } else if (wanted >= least_streamed) {
    tensor = Tensor(type, std::make_shared<FileValues>(values));
  } else {
    tensor = Tensor(type);
    values.read(tensor.write(), 0);
  }
  file.regions.emplace(region.offset, tensor);
  (is_own(region.location) ? own_bytes_ : bytes_read_) += wanted;
  return tensor;
}

}  // namespace tandem
