// MNIST's idx files: two zero bytes, element type, rank, big-endian sizes, then bytes.
// Source: the format's description on the MNIST page, yann.lecun.com/exdb/mnist.
#include <filesystem>

#include "base/file.h"
#include "base/file_kind.h"
#include "base/spec.h"
#include "data/dataset.h"

namespace tandem {
namespace {

constexpr int ubyte = 0x08;

// DIR/train-images-idx3-ubyte, with the spellings in use; empty where there is none.
std::filesystem::path look_for(const std::filesystem::path& folder, const std::string& stem, int rank) {
  for (const char* dash : {"-", "."})
    for (const char* gz : {"", ".gz"}) {
      const auto path = folder / concat(stem, dash, "idx", rank, "-ubyte", gz);
      if (std::filesystem::exists(path)) return path;
    }
  return {};
}

std::filesystem::path find_file(const std::filesystem::path& folder, const std::string& stem, int rank) {
  if (const auto path = look_for(folder, stem, rank); !path.empty()) return path;
  fail(ExitCode::io, (folder / concat(stem, "-idx", rank, "-ubyte")).string(), ": no such file (nor with .gz)");
}

Tensor read_idx(const std::filesystem::path& path, int rank) {
  const std::vector<std::byte> bytes = read_maybe_gzip(path);
  const auto at = [&](std::size_t i) { return std::to_integer<std::uint32_t>(bytes[i]); };
  const std::size_t header = 4 + 4 * static_cast<std::size_t>(rank);
  if (bytes.size() < 4 || at(0) != 0 || at(1) != 0)
    fail(ExitCode::data, path.string(), ": not an idx file (it starts with two zero bytes)",
         it_is({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  if (at(2) != ubyte) fail(ExitCode::data, path.string(), ": idx element type ", at(2), ", expected 8 (unsigned bytes)");
  if (at(3) != static_cast<std::uint32_t>(rank)) fail(ExitCode::data, path.string(), ": idx rank ", at(3), ", expected ", rank);
  if (bytes.size() < header) fail(ExitCode::data, path.string(), ": truncated in the header");
  Shape shape;
  std::uint64_t elements = 1;
  for (std::size_t d = 4; d < header; d += 4) {
    const std::uint64_t dim = at(d) << 24 | at(d + 1) << 16 | at(d + 2) << 8 | at(d + 3);
    shape.dims.push_back(static_cast<std::int64_t>(dim));
    elements = elements > bytes.size() ? elements : elements * dim;  // once too large, no need to know by how much
  }
  if (elements != bytes.size() - header)
    fail(ExitCode::data, path.string(), ": the header says ", shape, ", ", bytes.size() - header, " bytes follow");
  return Tensor::of(shape, std::span<const std::uint8_t>(reinterpret_cast<const std::uint8_t*>(bytes.data()) + header, elements));
}

std::unique_ptr<Dataset> read_part(const Spec& spec, const std::string& stem, std::string_view part) {
  const std::filesystem::path folder = spec.argument;
  const auto image_path = find_file(folder, stem + "-images", 3), label_path = find_file(folder, stem + "-labels", 1);
  Tensor images = read_idx(image_path, 3);
  const Tensor labels = read_idx(label_path, 1);
  const Shape& s = images.shape();
  auto data = std::make_unique<MemoryDataset>(concat("idx:", spec.argument, ", ", part));
  if (labels.shape()[0] != s[0])
    fail(ExitCode::data, label_path.string(), ": ", labels.shape()[0], " labels for ", s[0], " images in ", image_path.string());
  const Shape with_channel{s[0], 1, s[1], s[2]};
  data->add({.name = "images", .axes = Axes::channels_first, .pixels = true}, images.reshaped(with_channel));
  data->add({.name = "labels", .role = Role::label}, labels);
  return data;
}

}  // namespace

Splits open_idx(const Spec& spec, const DataRequest& request) {
  spec.allow({}, "data");
  if (spec.argument.empty()) fail(ExitCode::usage, "data 'idx' needs a folder: idx:DIR");
  const auto there = [&](std::string_view part) {
    const std::string stem = part == "train" ? "train-images" : part == "test" ? "t10k-images" : "";
    return !stem.empty() && !look_for(spec.argument, stem, 3).empty();
  };
  Splits splits;
  if (wants_part(request, "train", there)) splits.train = read_part(spec, "train", "train");
  if (wants_part(request, "test", there)) splits.test = read_part(spec, "t10k", "test");
  return splits;
}

}  // namespace tandem
