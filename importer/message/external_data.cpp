// A path is judged as it is written, and again with its links resolved. Regions that were read are kept: equal ones are one
// tensor, and ones that overlap are refused, for they would let a small file ask for any amount of memory.
#include "importer/message/external_data.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

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

bool within(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

}  // namespace

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
  check_location(region.location);
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

ExternalData::File& ExternalData::open(const std::string& location) {
  const fs::path path = resolve(location);
  const auto known = files_.find(path.string());  // one file may have several spellings
  if (known != files_.end()) return known->second;
  File file{FileDescriptor(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); })), 0, {}};
  struct stat status {};
  if (file.descriptor.get() < 0 || ::fstat(file.descriptor.get(), &status) != 0)
    fail("external data '", location, "': ", std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail("external data '", location, "' is not a regular file");
  if (status.st_nlink > 1) fail("external data '", location, "' has ", status.st_nlink, " hard links: another file may be meant");
  file.size = status.st_size;
  return files_.emplace(path.string(), std::move(file)).first->second;
}

Tensor ExternalData::read(const onnx::TensorProto& proto, const TensorType& type) {
  const ExternalRegion region = external_region(proto);
  const std::int64_t wanted = bytes_in_file(type);
  if (region.length >= 0 && region.length != wanted)
    fail("external data '", region.location, "': length is ", region.length, ", ", type, " takes ", wanted, " bytes");
  File& file = open(region.location);
  if (region.offset > file.size || wanted > file.size - region.offset)
    fail(outside(region.location, region.offset, wanted, file.size));
  if (wanted == 0) return Tensor(type);
  // Regions that overlap would let a small file ask for any amount of memory.
  const auto same = file.regions.find(region.offset);
  if (same != file.regions.end() && same->second.type() == type) {
    shared_bytes_ += wanted;  // they take no memory here, but time wherever values are looked at, and memory once trained
    if (shared_bytes_ > limits::shared_bytes + limits::shared_factor * bytes_read_)
      fail("external data '", region.location, "': more tensors share its bytes than the ", limits::shared_bytes, " bytes, and ",
           limits::shared_factor, " times the ", bytes_read_, " read, that are allowed");
    return same->second;
  }
  const auto next = file.regions.lower_bound(region.offset);
  const bool overlaps_next = next != file.regions.end() && next->first < region.offset + wanted;
  const bool overlaps_previous = next != file.regions.begin() &&
                                 std::prev(next)->first + bytes_in_file(std::prev(next)->second.type()) > region.offset;
  if (overlaps_next || overlaps_previous)
    fail("external data '", region.location, "': bytes from ", region.offset, " on belong to another tensor too");
  Tensor tensor(type);
  if (bits_of(type.dtype) < 8) {
    std::string bytes(static_cast<std::size_t>(wanted), '\0');
    read_exactly(file.descriptor.get(), bytes.data(), bytes.size(), region.offset, region.location);
    tensor = unpacked(type, bytes);
  } else {
    const auto bytes = tensor.write();
    read_exactly(file.descriptor.get(), reinterpret_cast<char*>(bytes.data()), bytes.size(), region.offset, region.location);
    if (type.dtype == DType::boolean)
      for (std::byte& b : bytes) b = std::byte{b != std::byte{0}};
  }
  file.regions.emplace(region.offset, tensor);
  bytes_read_ += wanted;
  return tensor;
}

}  // namespace tandem
