#include "importer/export_external.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

namespace tandem {
namespace {

namespace fs = std::filesystem;
using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

template <class F>
void for_each_external(onnx::TensorProto& tensor, F&& f) {
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) f(tensor);
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
      if (attribute.has_g()) for_each_external(*attribute.mutable_g(), f);
    }
}

template <class F>
void for_each_external(onnx::ModelProto& model, F&& f) {
  for_each_external(*model.mutable_graph(), f);
  for (auto& function : *model.mutable_functions()) for_each_external(*function.mutable_node(), f);
}

void copy(const fs::path& from, AtomicFile& to) {
  const FileDescriptor file(::open(from.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) fail(ExitCode::io, "cannot read '", from.string(), "': ", std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(ExitCode::io, "'", from.string(), "' is not a regular file");
  std::vector<char> chunk(std::size_t{1} << 20);
  for (std::int64_t at = 0; at < status.st_size;) {
    const std::size_t n = std::min(chunk.size(), static_cast<std::size_t>(status.st_size - at));
    read_exactly(file.get(), chunk.data(), n, at, from.string());
    to.write(chunk.data(), n, at);
    at += static_cast<std::int64_t>(n);
  }
}

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

void rename_location(onnx::TensorProto& tensor, const std::string& from, const std::string& to) {
  for (auto& entry : *tensor.mutable_external_data())
    if (entry.key() == "location" && entry.value() == from) entry.set_value(to);
}

}  // namespace

std::vector<AtomicFile> export_external(const ExternalData& external, const fs::path& source, const fs::path& output,
                                        const std::vector<ExternalPatch>& patches, onnx::ModelProto& model) {
  std::map<std::string, std::string> locations;  // of the template, and of the export
  for_each_external(model, [&](onnx::TensorProto& tensor) {
    const std::string location = external_region(tensor).location;
    const bool clash = same_file(external.resolve(location), output.parent_path() / location) && !same_file(source, output);
    const fs::path path(location);
    locations[location] =
        clash ? (path.parent_path() / concat(output.filename().string(), '.', path.filename().string())).string() : location;
  });
  std::vector<AtomicFile> files;
  for (const auto& [from, to] : locations) {
    AtomicFile& file = files.emplace_back(output.parent_path(), fs::path(to));
    copy(external.resolve(from), file);
    for (const ExternalPatch& patch : patches)
      if (patch.region.location == from)
        file.write(reinterpret_cast<const char*>(patch.tensor.bytes().data()), patch.tensor.bytes().size(), patch.region.offset);
    file.flush();
  }
  for_each_external(model, [&](onnx::TensorProto& tensor) {
    const std::string location = external_region(tensor).location;
    rename_location(tensor, location, locations.at(location));
  });
  return files;
}

}  // namespace tandem
