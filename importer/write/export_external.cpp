// Tensors are copied region by region, so that those that shared their bytes in the template share them again. Nothing is in its
// place before all of it is on the disk; what a killed process left is known by the mark beside it.
#include "importer/write/export_external.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/option.h"
#include "graph/tensor_chunks.h"
#include "importer/message/skeleton.h"
#include "importer/message/tensor_data.h"
#include "tandem_onnx.pb.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

template <class F>
void for_each_external(onnx::TensorProto& tensor, F&& f) {
  if (form_of(tensor) == DataForm::external) f(tensor);
}

template <class F>
void for_each_external(Nodes& nodes, F&& f);

template <class F>
void for_each_external(onnx::GraphProto& graph, F&& f) {
  for (auto& tensor : *graph.mutable_initializer()) for_each_external(tensor, f);
  for_each_external(*graph.mutable_node(), f);
}

template <class F>
void for_each_external(Nodes& nodes, F&& f) {
  for (auto& node : nodes)
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_t()) for_each_external(*attribute.mutable_t(), f);
      for (auto& tensor : *attribute.mutable_tensors()) for_each_external(tensor, f);
      if (attribute.has_g()) for_each_external(*attribute.mutable_g(), f);
      for (auto& graph : *attribute.mutable_graphs()) for_each_external(graph, f);
    }
}

template <class F>
void for_each_external(onnx::ModelProto& model, F&& f) {
  for_each_external(*model.mutable_graph(), f);
  for (auto& function : *model.mutable_functions()) for_each_external(*function.mutable_node(), f);
}

FileDescriptor open_data(const fs::path& path, std::int64_t& size) {
  FileDescriptor file(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); }));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) fail(ExitCode::io, "cannot read '", path.string(), "': ", std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(ExitCode::io, "'", path.string(), "' is not a regular file");
  size = status.st_size;
  return file;
}

std::int64_t bytes_of(const onnx::TensorProto& proto, const ExternalRegion& region) {
  if (region.length >= 0) return region.length;
  return bytes_in_file(type_of(proto));
}

// Pages may be mapped as they lie; small tensors need not fill one each.
std::int64_t aligned(std::int64_t offset, std::int64_t bytes) {
  const std::int64_t step = bytes >= 4096 ? 4096 : 16;
  return (offset + step - 1) / step * step;
}

void point_to(onnx::TensorProto& proto, const std::string& name, std::int64_t offset, std::int64_t bytes) {
  clear_values(proto);
  proto.set_data_location(onnx::TensorProto::EXTERNAL);
  proto.clear_external_data();
  for (const auto& [key, value] :
       {std::pair{std::string("location"), name}, {"offset", std::to_string(offset)}, {"length", std::to_string(bytes)}}) {
    auto& entry = *proto.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
}

// The files in which the model that lies at `output` now keeps its data.
std::set<std::string> data_of(const fs::path& output) {
  std::set<std::string> names;
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(output, error))) return names;
  try {
    ExternalData unread;
    onnx::ModelProto model = read_model(std::make_shared<InputFile>(output, ExitCode::model), unread);
    for_each_external(model, [&](const onnx::TensorProto& tensor) { names.insert(external_region(tensor).location); });
  } catch (const Error& e) {
    if (e.code() == ExitCode::io) throw;  // one that cannot be read may be a model
    names.clear();
  }
  return names;
}

}  // namespace

ExternalExport::ExternalExport(const ExternalData& external, fs::path output, const SaveOptions& options)
    : external_(external), output_(std::move(output)), options_(options) {}

const std::string& ExternalExport::name_for(const std::string& location) {
  const std::string key = options_.keep_external_layout ? location : "";
  const auto found = names_.find(key);
  return found != names_.end() ? found->second : names_[key] = choose_name(key);
}

std::string ExternalExport::choose_name(const std::string& location) {
  const bool keep = !location.empty();
  const std::string file = output_.filename().string(), own = name_beside(file, ".data"), other = name_beside(file, ".2.data");
  const std::set<std::string> read = data_of(output_);
  // What the model there reads stays until the new one has taken its place: the two names take turns.
  const bool turn = !keep && read.contains(own);
  const std::string name = keep ? fs::path(location).lexically_normal().string() : turn ? other : own;
  if (keep && (fs::path(name).has_parent_path() || name.starts_with('.') || name == output_.filename()))
    fail(ExitCode::usage, "external data '", location, "' of the template is no plain file name: without ", option("keep_external_layout"),
         " it goes into '", own, "'");
  if (!keep && read.contains(turn ? own : other)) replaced_ = turn ? own : other;
  const fs::path path = output_.parent_path() / name;
  std::error_code error;
  const fs::file_status there = fs::symlink_status(path, error);
  if (!fs::exists(there)) return name;
  if (!fs::is_regular_file(there)) fail(ExitCode::usage, "'", path.string(), "', where the model's external data go, is no regular file");
  const bool ours = read.contains(name) || (!keep && (!replaced_.empty() || fs::exists(mark(), error)));
  if (!options_.overwrite && !ours)
    fail(ExitCode::usage, "'", path.string(), "', where the model's external data go, is there already and belongs to another model: "
         "choose another output, or give ", option("overwrite"));
  return name;
}

fs::path ExternalExport::mark() const {
  return output_.parent_path() / name_beside(concat('.', output_.filename().string()), ".unfinished");
}

ExternalExport::File& ExternalExport::file(const std::string& name) {
  const auto found = files_.find(name);
  if (found != files_.end()) return found->second;
  return files_.emplace(name, File{AtomicFile(output_.parent_path(), name)}).first->second;
}

std::int64_t ExternalExport::copy(const Region& region, File& to) {
  const auto& [name, path, offset, bytes] = region;
  const auto found = copied_.find(region);
  if (found != copied_.end()) return found->second;
  std::int64_t size = 0;
  const FileDescriptor from = open_data(path, size);
  if (offset > size || bytes > size - offset) fail(ExitCode::model, outside(fs::path(path).filename().string(), offset, bytes, size));
  const std::int64_t start = aligned(to.end, bytes);
  std::vector<char> chunk(static_cast<std::size_t>(std::min<std::int64_t>(bytes, 1 << 20)));
  for (std::int64_t at = 0; at < bytes;) {
    const std::size_t n = std::min(chunk.size(), static_cast<std::size_t>(bytes - at));
    read_exactly(from.get(), chunk.data(), n, offset + at, path);
    to.file.write(chunk.data(), n, start + at);
    at += static_cast<std::int64_t>(n);
  }
  to.end = start + bytes;
  return copied_[region] = start;
}

void ExternalExport::store(onnx::TensorProto& proto, const Tensor* values) {
  const bool external = proto.data_location() == onnx::TensorProto::EXTERNAL;
  const ExternalRegion region = external ? external_region(proto) : ExternalRegion{};
  const std::string& name = name_for(region.location);
  File& to = file(name);
  std::int64_t bytes = 0, offset = 0;
  if (values) {
    bytes = bytes_in_file(values->type());
    offset = aligned(to.end, bytes);
    if (bits_of(values->dtype()) < 8) to.file.write(packed(*values).data(), static_cast<std::size_t>(bytes), offset);
    else
      each_chunk(*values, [&](std::span<const std::byte> chunk, std::int64_t at) {
        to.file.write(reinterpret_cast<const char*>(chunk.data()), chunk.size(), offset + at);
      });
    to.end = offset + bytes;
  } else {
    bytes = bytes_of(proto, region);
    offset = copy({name, external_.resolve(region.location).string(), region.offset, bytes}, to);
  }
  point_to(proto, name, offset, bytes);
  done_.insert(&proto);
}

void ExternalExport::store_rest(onnx::ModelProto& model) {
  for_each_external(model, [&](onnx::TensorProto& tensor) {
    if (!done_.contains(&tensor)) store(tensor, nullptr);
  });
}

std::int64_t ExternalExport::check(onnx::ModelProto& model) {
  std::int64_t bytes = 0;
  for_each_external(model, [&](const onnx::TensorProto& tensor) {
    const ExternalRegion region = external_region(tensor);
    name_for(region.location);
    const fs::path path = external_.resolve(region.location);
    std::int64_t size = 0;
    open_data(path, size);
    if (region.offset > size || bytes_of(tensor, region) > size - region.offset)
      fail(ExitCode::model, "initializer '", tensor.name(), "' ", outside(region.location, region.offset, bytes_of(tensor, region), size));
    bytes += bytes_of(tensor, region);
  });
  return bytes;
}

void ExternalExport::flush() {
  for (auto& [name, file] : files_) file.file.flush();
}

void ExternalExport::commit() {
  if (files_.empty()) return;
  AtomicFile(output_.parent_path(), mark().filename()).commit();
  for (auto& [name, file] : files_) file.file.commit();
}

void ExternalExport::finish() {
  if (files_.empty()) return;
  std::error_code ignored;
  if (!replaced_.empty()) fs::remove(output_.parent_path() / replaced_, ignored);
  fs::remove(mark(), ignored);
}

}  // namespace tandem
